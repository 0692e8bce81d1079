/**
 * Pairing as earlier versions kept it, in each session's own file, taken over into the identity's. Nothing that a user
 * had waiting is lost, and nothing comes twice: what was decided meanwhile is known by its knock.
 */

import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Key } from "../../protocol/address.ts";
import { prunePairing, type PendingPair, type SentKnock } from "../trust/pairing-state.ts";
import { Database } from "./database.ts";
import type { Knock } from "./knocks.ts";
import { MetaTable } from "./meta.ts";
import type { PairingStore } from "./pairing-store.ts";
import { isSessionFile } from "./paths.ts";
import { FORMER, readSchema, SESSION_SCHEMA } from "./schema.ts";

/** What a session's file held. */
interface Former {
  readonly pending: readonly PendingPair[];
  readonly sent: readonly SentKnock[];
  readonly knocks: readonly (Knock & { readonly at_ms: number })[];
}

/** When all files of that time were read. */
const ADOPTED = "adopted_at_ms";

/**
 * Reads, once, every session's file of an identity: those of sessions that never come again too. They are left as they
 * are, for one may be running.
 */
export function adoptFormerFiles(
  store: PairingStore,
  { directory, me, nowMs }: { readonly directory: string; readonly me: Key; readonly nowMs: number },
): void {
  if (store.meta.get(ADOPTED) !== undefined) return;
  const files = readdirSync(directory).filter((name) => isSessionFile(name, me));
  const formers = files.flatMap((name) => readFile(join(directory, name)) ?? []);
  store.transaction(() => {
    adopt(store, formers, nowMs);
    store.meta.set(ADOPTED, String(nowMs));
  });
}

/**
 * Takes over what the file of a session holds, and leaves nothing there.
 * @param meta of the session's file, which this process has open
 */
export function adoptFormerOf(store: PairingStore, meta: MetaTable, nowMs: number): void {
  const [pairing, knocks] = [meta.get(FORMER.pairing), meta.get(FORMER.knocks)];
  if (pairing === undefined && knocks === undefined) return;
  const { pending, sent, knocks: known } = formerOf(pairing, knocks);
  // What was there when all files were read was adopted, and may have been decided since.
  const sinceMs = Number(store.meta.get(ADOPTED) ?? 0);
  const isLater = ({ at_ms }: { readonly at_ms: number }) => at_ms > sinceMs;
  const former = { pending: pending.filter(isLater), sent: sent.filter(isLater), knocks: known.filter(isLater) };
  store.transaction(() => adopt(store, [former], nowMs));
  // After the other file has it: a crash in between takes it over once more, to no effect.
  meta.set(FORMER.pairing, undefined);
  meta.set(FORMER.knocks, undefined);
}

/** Runs in a transaction. */
function adopt(store: PairingStore, formers: readonly Former[], nowMs: number): void {
  const pending = formers.flatMap((former) => former.pending);
  // An answer comes again only as long as our knock is open, and is then taken again.
  const undecided = pending.filter(({ what, key, msg_id }) => what === "answer" || !store.knocks.knows(key, msg_id));
  const sent = formers.flatMap((former) => former.sent);
  store.update(({ owed, ...kept }) => {
    const merged = { pending: latest(kept.pending, undecided), sent: latest(kept.sent, sent), owed };
    return { state: prunePairing(merged, nowMs) };
  });
  const knocks = formers.flatMap((former) => former.knocks);
  for (const knock of knocks) if (store.knocks.isNew(knock)) store.knocks.keep(knock, knock.at_ms);
}

/** Of two entries of a key the later counts; of equals what is kept. */
function latest<Entry extends { readonly key: Key; readonly at_ms: number }>(
  kept: readonly Entry[],
  former: readonly Entry[],
): Entry[] {
  const all = [...former, ...kept].sort((a, b) => a.at_ms - b.at_ms);
  return [...new Map(all.map((entry) => [entry.key, entry])).values()];
}

/** Undefined for what is none of ours, cannot be read, or is a link: it is looked at again when its session opens it. */
function readFile(path: string): Former | undefined {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isFile()) return undefined;
  const database = new Database(path);
  try {
    database.exec("PRAGMA busy_timeout = 5000");
    const { step, isOurs } = readSchema(database, SESSION_SCHEMA);
    if (!isOurs || step < 1 || step > SESSION_SCHEMA.steps.length) return undefined;
    const meta = new MetaTable(database);
    return formerOf(meta.get(FORMER.pairing), step === 1 ? knocksOf(database) : meta.get(FORMER.knocks));
  } catch {
    return undefined;
  } finally {
    database.close();
  }
}

/** As the second step leaves them. */
function knocksOf(database: Database): string {
  return JSON.stringify(
    database.all("SELECT peer AS key, msg_id, ts, at_ms FROM knock WHERE direction = 'in' AND kind = 'pair_request'"),
  );
}

function formerOf(pairing: string | undefined, knocks: string | undefined): Former {
  const { pending, sent } = pairing === undefined ? { pending: [], sent: [] } : (JSON.parse(pairing) as Former);
  return {
    pending,
    // What else stood there is not kept: a name that nobody chose, and who asked.
    sent: sent.map(({ key, send: { to, fields }, at_ms }) => ({ key, send: { to, fields }, at_ms })),
    knocks: knocks === undefined ? [] : (JSON.parse(knocks) as Former["knocks"]),
  };
}
