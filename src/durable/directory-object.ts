/**
 * What is known across identities, sharded by key: who shows a session to all, who is admitted, and the
 * open invites. It holds keys and hashes alone; what a roster shows, and how old it is, is asked of each
 * identity, so a heartbeat costs nothing here.
 */

import { DurableObject } from "cloudflare:workers";
import { refuse, type Refusal } from "../protocol/refusal.ts";
import type { DirectoryCalls, Methods } from "./calls.ts";
import { clock } from "./clock.ts";
import type { Env } from "./env.ts";
import { INVITE_TABLE, InviteStore } from "./invite-store.ts";
import { LISTED_TABLE, ListedStore } from "./listed-store.ts";
import { logEvent } from "./log.ts";
import { Sql } from "./meter.ts";
import { migrate, schemaStep } from "./migrate.ts";
import { NONCE_TABLE, NonceStore } from "./nonce-store.ts";
import { settingsOf } from "./settings.ts";

/** Append only; see migrate.ts. */
const STEPS = [
  LISTED_TABLE + `CREATE TABLE admitted (key TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;` + INVITE_TABLE + NONCE_TABLE,
];

/** Wrong invites that are answered as such in a minute; past it they are told to wait. A right one always passes. */
const GUESSES_PER_MINUTE = 20;
const MINUTE_MS = 60_000;

type Answer<Operation extends keyof DirectoryCalls> = DirectoryCalls[Operation]["answer"] | Refusal;

export class DirectoryObject extends DurableObject<Env> implements Methods<DirectoryCalls> {
  readonly #sql = new Sql(this.ctx.storage.sql);
  readonly #listed = new ListedStore(this.#sql, settingsOf(this.env).limits);
  readonly #invites = new InviteStore(this.#sql);
  readonly #nonces = new NonceStore(this.#sql);
  #hasTables = schemaStep(this.#sql) > 0;
  #toldFull = false;
  #guesses = { sinceMs: 0, count: 0 };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    if (this.#hasTables) migrate(this.#sql, STEPS);
  }

  list(json: string): string {
    return this.#write<"list">(json, ({ key, isShown }) => {
      const outcome = this.#listed.put(key, isShown);
      if (outcome === "listed") return {};
      // Once an instance: whoever fills the shard would fill the log as well.
      if (!this.#toldFull)
        logEvent("directory_full", { shard: this.ctx.id.name, meaning: "some are not counted any more" });
      this.#toldFull = true;
      return outcome === "full" ? { isFull: true } : {};
    });
  }

  unlist(json: string): string {
    return this.#write<"unlist">(json, ({ key }) => {
      this.#listed.remove(key);
      return {};
    });
  }

  page(json: string): string {
    const { after = "", limit, isShown } = JSON.parse(json) as DirectoryCalls["page"]["call"];
    if (!this.#hasTables) return JSON.stringify({ keys: [] } satisfies Answer<"page">);
    const keys = this.#listed.page(after, limit, isShown);
    // Only who counts all asks for the hidden ones, and must know that some may be missing.
    const full = !isShown && this.#listed.isFull() ? { isFull: true as const } : {};
    return JSON.stringify({ keys, ...full } satisfies Answer<"page">);
  }

  isAdmitted(json: string): string {
    const { key } = JSON.parse(json) as DirectoryCalls["isAdmitted"]["call"];
    const isAdmitted =
      this.#hasTables && this.#sql.exec("SELECT 1 FROM admitted WHERE key = ?", key).toArray().length > 0;
    return JSON.stringify({ isAdmitted } satisfies Answer<"isAdmitted">);
  }

  admit(json: string): string {
    return this.#write<"admit">(json, ({ key }) => {
      this.#sql.exec("INSERT INTO admitted (key) VALUES (?) ON CONFLICT DO NOTHING", key);
      return {};
    });
  }

  useNonce(json: string): string {
    return this.#write<"useNonce">(json, ({ nonce }) => {
      if (!this.#nonces.use(nonce)) return refuse("replay");
      void this.#armFor(nonce.expiresAtMs);
      return {};
    });
  }

  putInvite(json: string): string {
    return this.#write<"putInvite">(json, ({ hash, expiresAtMs }) => {
      this.#invites.put(hash, expiresAtMs);
      void this.#armFor(expiresAtMs);
      return {};
    });
  }

  takeInvite(json: string): string {
    const { hash, key } = JSON.parse(json) as DirectoryCalls["takeInvite"]["call"];
    const nowMs = clock.now();
    const isTaken = this.#hasTables && this.#invites.take(hash, key, nowMs);
    return JSON.stringify((isTaken ? {} : this.#refuseGuess(nowMs)) satisfies Answer<"takeInvite">);
  }

  removeInvite(json: string): string {
    return this.#write<"removeInvite">(json, ({ hash }) => {
      this.#invites.remove(hash);
      return {};
    });
  }

  forget(json: string): string {
    return this.#write<"forget">(json, ({ key }) => {
      this.#listed.remove(key);
      this.#sql.exec("DELETE FROM admitted WHERE key = ?", key);
      return {};
    });
  }

  /** Invites and nonces past their time are refused by it; this only takes them off the disk. */
  override async alarm(): Promise<void> {
    if (!this.#hasTables) return;
    const nowMs = clock.now();
    this.#invites.prune(nowMs);
    this.#nonces.prune(nowMs);
    const latest = Math.max(this.#invites.latestExpiry() ?? 0, this.#nonces.latestExpiry() ?? 0);
    if (latest > 0) await this.ctx.storage.setAlarm(latest);
  }

  /** One synchronous read-decide-write; the tables are made by the first. */
  #write<Operation extends keyof DirectoryCalls>(
    json: string,
    decide: (call: DirectoryCalls[Operation]["call"]) => Answer<Operation>,
  ): string {
    const answer = this.ctx.storage.transactionSync(() => {
      if (!this.#hasTables) migrate(this.#sql, STEPS);
      return decide(JSON.parse(json) as DirectoryCalls[Operation]["call"]);
    });
    this.#hasTables = true;
    return JSON.stringify(answer);
  }

  /** One sweep for all: an alarm that is set already takes later ones with it. */
  async #armFor(expiresAtMs: number): Promise<void> {
    if ((await this.ctx.storage.getAlarm()) === null) await this.ctx.storage.setAlarm(expiresAtMs);
  }

  #refuseGuess(nowMs: number): Refusal {
    if (nowMs - this.#guesses.sinceMs >= MINUTE_MS) this.#guesses = { sinceMs: nowMs, count: 0 };
    this.#guesses.count++;
    return this.#guesses.count > GUESSES_PER_MINUTE
      ? refuse("rate_limited", { retry_after_s: MINUTE_MS / 1_000 })
      : refuse("join_denied");
  }
}
