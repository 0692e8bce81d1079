/** What doctor sees of the bus: that it answers and when, that it lets us in, who sees us, and that a message comes back. */

import { randomBytes } from "node:crypto";
import { parseSessionId, type SessionId } from "../../protocol/address.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { classifyPresence } from "../../protocol/presence.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { BusUrl } from "../bus/bus-url.ts";
import type { BusClock } from "../bus/clock.ts";
import { BusHttp } from "../bus/http.ts";
import { isOk, type Outcome } from "../bus/outcome.ts";
import type { RosterView } from "../bus/roster-view.ts";
import type { Signer } from "../bus/signer.ts";
import { signDraft } from "../session/draft.ts";
import { durationOf } from "../tools/ages.ts";
import { counted } from "../tools/render.ts";
import { judge } from "../trust/gate.ts";
import { throwawayIdentity } from "../trust/identity-file.ts";
import { wordsOfOutcome, type Asker } from "./asker.ts";
import type { Desk } from "./desk.ts";
import type { Check } from "./check.ts";

/** A message to ourselves is there at once, or something is wrong. */
const ROUND_TRIP_MAX_MS = 5_000;

export async function checkBus(desk: Desk, asker: Asker): Promise<Check[]> {
  const { http, url } = asker;
  const health = await http.health();
  if (!isOk(health)) {
    const mend = url.reach === "loopback" ? "interlink-edge bus start" : `curl -sS ${url.origin}/health`;
    return [{ name: "bus", state: "error", says: wordsOfOutcome(health, url).words, mend }];
  }
  const askedAtMs = Date.now();
  const view = await http.rosterOf(desk.me);
  const heardAtMs = Date.now();
  const bus: Check = { name: "bus", state: "ok", says: `${url.origin} answers in ${heardAtMs - askedAtMs} ms` };
  if (!isOk(view)) return [bus, checkAdmission(view, asker)];
  const offsetMs = Math.round(view.ok.now_ms - (askedAtMs + heardAtMs) / 2);
  return [
    bus,
    checkClock(offsetMs),
    checkAdmission(view, asker),
    checkPresence(view.ok),
    await checkRoundTrip(desk, asker, view.ok),
  ];
}

function checkClock(offsetMs: number): Check {
  const says = `the bus's clock is ${Math.abs(offsetMs)} ms ${offsetMs < 0 ? "behind" : "ahead of"} ours`;
  if (Math.abs(offsetMs) < DEFAULT_LIMITS.CLOCK_SKEW_MS / 2) return { name: "clock", state: "ok", says };
  return {
    name: "clock",
    state: "warning",
    says: `${says}; ours is mended by its word, others' trust it less`,
    mend: "timedatectl set-ntp true",
  };
}

function checkAdmission(view: Outcome<RosterView>, { url }: Asker): Check {
  if (isOk(view)) return { name: "admission", state: "ok", says: "the bus lets our key in" };
  const isOut = "refused" in view && view.refused === "not_admitted";
  const mend = isOut ? { mend: "interlink-edge setup INVITE, with one from who runs the bus" } : {};
  return { name: "admission", state: "error", says: wordsOfOutcome(view, url).words, ...mend };
}

function checkPresence({ roster }: RosterView): Check {
  const seen = roster.map(({ age_ms }) => classifyPresence(age_ms, DEFAULT_LIMITS));
  const [live, away] = [seen.filter((each) => each === "live").length, seen.filter((each) => each === "away").length];
  if (live + away === 0)
    return {
      name: "presence",
      state: "warning",
      says: "peers see no agent of ours; one shows itself once a host has started it",
      mend: "start a host",
    };
  const youngest = Math.min(...roster.map(({ age_ms }) => age_ms));
  const says = `peers see ${counted(live, "live agent")} of ours and ${away} away, heard ${durationOf(youngest)} ago`;
  return { name: "presence", state: live > 0 ? "ok" : "warning", says };
}

/**
 * Two sessions that nobody else knows: one writes, the other polls, verifies as an agent would, and acks. A poll takes what
 * waits for the identity itself, which is the agents': so it is done as us only while an agent of ours is connected and
 * has that, and else as an identity of that moment.
 */
async function checkRoundTrip(
  { identity: own }: Desk,
  { url, clock, http: ownHttp }: Asker,
  { roster }: RosterView,
): Promise<Check> {
  const isHeld = roster.some(({ connected }) => connected);
  const identity = isHeld ? own : throwawayIdentity();
  const http = isHeld ? ownHttp : new BusHttp({ url, signer: identity, clock });
  const check = await roundTrip(identity, http, clock, url);
  if (isHeld) return check;
  const forgotten = await http.forget();
  if (!isOk(forgotten) && "refused" in forgotten && forgotten.refused === "not_admitted")
    return {
      name: "round trip",
      state: "warning",
      says: "not tried while no agent of ours is connected: it would take what waits for the first",
      mend: "start a host",
    };
  return check;
}

async function roundTrip({ key: me, sign }: Signer, http: BusHttp, clock: BusClock, url: BusUrl): Promise<Check> {
  const error = (says: string): Check => ({
    name: "round trip",
    state: "error",
    says,
    mend: "interlink-edge doctor --json, to whoever runs the bus",
  });
  const [from, session] = [sessionId(), sessionId()];
  const to = { key: me, session };
  const author = { key: me, session: from, sign: async (bytes: Uint8Array) => sign(bytes) };
  const text = "interlink-edge doctor";
  const msg_id = randomBytes(16).toString("hex");
  const payload = await signDraft({ to, text }, author, msg_id, clock.now());
  if (isRefusal(payload)) throw new Error("doctor's own message is none");
  const startMs = performance.now();
  const stored = await http.send({ to, payload });
  if (!isOk(stored)) return error(`sending: ${wordsOfOutcome(stored, url).words}`);
  const polled = await http.recv(session, { timeoutMs: ROUND_TRIP_MAX_MS, max: 1 });
  if (!isOk(polled)) return error(`receiving: ${wordsOfOutcome(polled, url).words}`);
  const [item] = polled.ok.items;
  if (!item) return error(`what was stored did not come back within ${durationOf(ROUND_TRIP_MAX_MS)}`);
  const world = {
    me,
    session,
    inbox: to,
    petnames: new Map(),
    knocked: new Map(),
    knownDigest: undefined,
    nowMs: clock.now(),
    limits: DEFAULT_LIMITS,
  };
  const verdict = await judge(item.envelope.payload, world);
  if (verdict.verdict !== "accept" || verdict.message.msg_id !== msg_id || verdict.message.text !== text)
    return error("what came back is not what was sent");
  const acked = await http.ack(session, [item.ack]);
  if (!isOk(acked)) return error(`acking: ${wordsOfOutcome(acked, url).words}`);
  if (acked.ok.removed !== 1) return error("what was acked is still there");
  return {
    name: "round trip",
    state: "ok",
    says: `a message to ourselves was sent, received and acked in ${Math.round(performance.now() - startMs)} ms`,
  };
}

function sessionId(): SessionId {
  return parseSessionId(`doctor-${randomBytes(8).toString("hex")}`)!;
}
