/**
 * All that an identity's object keeps, as one thing that exists or does not: opened when there is a
 * database, made at the first write, gone after `clear`. A question to an identity that nobody ever
 * was writes nothing.
 */

import type { Key, SessionId } from "../protocol/address.ts";
import { encodeBase64url } from "../protocol/base64url.ts";
import type { Limits } from "../protocol/constants.ts";
import type { Life } from "./calls.ts";
import { CONTACT_TABLES, ContactStore } from "./contact-store.ts";
import { nextWake, phaseOf, type Kept } from "./expiry.ts";
import { GOODBYE_TABLE, GoodbyeStore } from "./goodbye-store.ts";
import { INBOX_TABLES, InboxStore } from "./inbox-store.ts";
import { Sql } from "./meter.ts";
import { migrate, schemaStep } from "./migrate.ts";
import { NONCE_TABLE, NonceStore } from "./nonce-store.ts";
import { NOTICE_TABLES } from "./notice-store.ts";
import { ROSTER_TABLES, RosterStore, WAKE_COLUMN } from "./roster-store.ts";
import type { Settings } from "./settings.ts";

const IDENTITY_TABLE = `
  CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    key TEXT NOT NULL,
    generation TEXT NOT NULL,
    told_shown INTEGER NOT NULL,
    listing_due_at_ms INTEGER,
    emptied_at_ms INTEGER,
    alarm_at_ms INTEGER
  ) STRICT;
`;

/** Append only; see migrate.ts. */
const STEPS = [
  IDENTITY_TABLE + ROSTER_TABLES + INBOX_TABLES + NOTICE_TABLES + CONTACT_TABLES + NONCE_TABLE + GOODBYE_TABLE,
  WAKE_COLUMN,
];

/** What the directory was last told of this identity, and when it is to be told (again); null: it knows. */
export interface Listing {
  readonly isShown: boolean;
  readonly dueAtMs: number | null;
}

/** What is open to the identity's sessions, as far as storage must know of it. */
export interface Open {
  /** When a session was last heard on its socket or poll; undefined if it has neither. */
  signOfLifeMs(session: SessionId): number | undefined;
  /** The largest number that any open socket has pushed; 0 if none has. */
  pushedThrough(): number;
}

interface IdentityRow extends Record<string, SqlStorageValue> {
  key: Key;
  generation: string;
  /** What the directory was told: whether the identity shows a session to all. */
  told_shown: number;
  /** When the directory is to be told (again), or null: it knows. */
  listing_due_at_ms: number | null;
  emptied_at_ms: number | null;
  /** What the one alarm is set to. Kept here because asking the platform for it is asynchronous. */
  alarm_at_ms: number | null;
}

/** Numbers of messages leave this room in one millisecond; see {@link IdentityStorage.nextSeq}. */
const SEQS_PER_MS = 1_024;

export class IdentityStorage {
  readonly roster: RosterStore;
  readonly inboxes: InboxStore;
  readonly contacts: ContactStore;
  readonly nonces: NonceStore;
  readonly goodbyes: GoodbyeStore;
  /** See {@link phaseOf}. */
  readonly phase: number;
  readonly #storage: DurableObjectStorage;
  readonly #sql: Sql;
  readonly #limits: Limits;
  readonly #open: Open;
  readonly #isOpen: boolean;
  #row: IdentityRow;
  #lastSeq: number | undefined;

  /** Opens what is there, or undefined. */
  static open(storage: DurableObjectStorage, settings: Settings, open: Open): IdentityStorage | undefined {
    const sql = new Sql(storage.sql);
    const step = schemaStep(sql);
    if (step === 0) return undefined;
    migrate(sql, STEPS, step);
    return new IdentityStorage(storage, settings, open);
  }

  /** Makes an identity's storage: a new generation. */
  static create(
    storage: DurableObjectStorage,
    settings: Settings,
    open: Open,
    key: Key,
    nowMs: number,
  ): IdentityStorage {
    const sql = new Sql(storage.sql);
    migrate(sql, STEPS, 0);
    const generation = encodeBase64url(crypto.getRandomValues(new Uint8Array(16)));
    sql.exec(
      "INSERT INTO identity (one, key, generation, told_shown, listing_due_at_ms) VALUES (1, ?, ?, 0, ?)",
      key,
      generation,
      nowMs,
    );
    return new IdentityStorage(storage, settings, open);
  }

  private constructor(storage: DurableObjectStorage, { limits, overflow, access }: Settings, open: Open) {
    const sql = new Sql(storage.sql);
    this.#sql = sql;
    this.#storage = storage;
    this.#limits = limits;
    this.#open = open;
    this.#isOpen = access === "open";
    this.roster = new RosterStore(sql, limits, (session) => open.signOfLifeMs(session));
    this.inboxes = new InboxStore(sql, limits, overflow);
    this.contacts = new ContactStore(sql, limits);
    this.nonces = new NonceStore(sql);
    this.goodbyes = new GoodbyeStore(sql);
    this.#row = this.#readRow();
    this.phase = phaseOf(this.#row.key);
  }

  get key(): Key {
    return this.#row.key;
  }

  get generation(): string {
    return this.#row.generation;
  }

  life(nowMs: number): Life {
    return { generation: this.#row.generation, now_ms: nowMs };
  }

  /** True if a session shows itself to all, so that the whole-bus roster must find this identity. */
  isShown(nowMs: number): boolean {
    return this.roster.sessions(nowMs).some((session) => session.public !== null);
  }

  get listing(): Listing {
    return { isShown: this.#row.told_shown === 1, dueAtMs: this.#row.listing_due_at_ms };
  }

  setListing({ isShown, dueAtMs }: Listing): void {
    this.#update({ told_shown: isShown ? 1 : 0, listing_due_at_ms: dueAtMs });
  }

  /** After the roster changed: writes down that the directory must be told, if what it knows is not so any more. */
  noteListing(nowMs: number): void {
    const { isShown, dueAtMs } = this.listing;
    if (dueAtMs === null && isShown !== this.isShown(nowMs)) this.setListing({ isShown, dueAtMs: nowMs });
  }

  /** Lets everything go whose time has come. */
  expire(nowMs: number): void {
    this.roster.expire(nowMs);
    this.inboxes.expire(this.nextSeq(nowMs), nowMs);
    this.inboxes.prune(nowMs);
    this.contacts.expire(nowMs);
    this.nonces.prune(nowMs);
    this.noteListing(nowMs);
  }

  /**
   * A number for the next message, above all that the identity ever gave out. It grows with the clock
   * instead of a stored counter: that would be one more row per message, and after the last message left
   * nothing would tell it. A clock that steps back is outrun by the largest number in use: in a table, or on a
   * socket that would never push what comes below it.
   */
  nextSeq(nowMs: number): number {
    this.#lastSeq ??= Math.max(
      this.inboxes.lastSeq(),
      this.inboxes.notices.lastSeq(),
      this.contacts.lastSeq(),
      this.#open.pushedThrough(),
    );
    this.#lastSeq = Math.max(this.#lastSeq + 1, nowMs * SEQS_PER_MS);
    return this.#lastSeq;
  }

  /** Everything that the next alarm depends on. Reads every row of some tables, so only the alarm asks. */
  facts(): Kept {
    const { seenAtMs, buriedAtMs } = this.roster.oldest();
    const { messageAtMs, receiptAtMs } = this.inboxes.oldest();
    const callsDue = [this.goodbyes.nextDueAtMs(), this.#row.listing_due_at_ms ?? undefined].filter(
      (due) => due !== undefined,
    );
    return {
      seenAtMs,
      buriedAtMs,
      messageAtMs,
      receiptAtMs,
      knockAtMs: this.contacts.oldestKnockAtMs(),
      nonceExpiresAtMs: this.nonces.latestExpiry(),
      callDueAtMs: callsDue.length > 0 ? Math.min(...callsDue) : undefined,
      emptiedAtMs: this.#row.emptied_at_ms ?? undefined,
      hasContacts: this.#keepsContacts(),
    };
  }

  /** Writes down since when nothing is kept, or that something is. */
  setEmptied(atMs: number | null): void {
    if (this.#row.emptied_at_ms !== atMs) this.#update({ emptied_at_ms: atMs });
  }

  /**
   * After a write of something new: the alarm must ring no later than for it. Two rows, and only if it is
   * sooner than what the alarm is set to, so that a heartbeat costs none.
   */
  armFor(added: Partial<Kept>): void {
    this.setEmptied(null);
    const dueAtMs = nextWake({ hasContacts: false, ...added }, this.#limits, this.phase);
    if (dueAtMs !== undefined && dueAtMs < (this.#row.alarm_at_ms ?? Infinity)) this.setAlarm(dueAtMs);
  }

  /** What is here now is the last, and goes at an instant, without the time that a ghost is given. */
  endAt(atMs: number): void {
    this.setEmptied(atMs - this.#limits.GHOST_RETAIN_MS);
    this.setAlarm(atMs);
  }

  /** Sets the one alarm, or clears it. */
  setAlarm(atMs: number | null): void {
    // Not awaited: the platform makes it part of this turn's commit.
    if (atMs === null) void this.#storage.deleteAlarm();
    else void this.#storage.setAlarm(atMs);
    this.#update({ alarm_at_ms: atMs });
  }

  get alarmAtMs(): number | null {
    return this.#row.alarm_at_ms;
  }

  /** An empty list is as good as none, but under ACCESS=open, where it shuts out who else would be let in. */
  #keepsContacts(): boolean {
    const list = this.contacts.list();
    return list !== undefined && (list.keys.size > 0 || this.#isOpen);
  }

  #readRow(): IdentityRow {
    return this.#sql.exec<IdentityRow>("SELECT * FROM identity").one();
  }

  #update(change: Partial<IdentityRow>): void {
    this.#row = { ...this.#row, ...change } as IdentityRow;
    const { told_shown, listing_due_at_ms, emptied_at_ms, alarm_at_ms } = this.#row;
    this.#sql.exec(
      "UPDATE identity SET told_shown = ?, listing_due_at_ms = ?, emptied_at_ms = ?, alarm_at_ms = ?",
      told_shown,
      listing_due_at_ms,
      emptied_at_ms,
      alarm_at_ms,
    );
  }
}
