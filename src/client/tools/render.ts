/**
 * PURE. What is said of messages: where one stands, and who will get it.
 *
 * The words are those of what is known: pending, stored, refused, acked, expired, evicted. What only the first hop knows
 * is never called sent or delivered. Everybody's words but ours are in quotes and escaped.
 */

import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { isStale } from "../../protocol/presence.ts";
import { isRefusalCode, sentenceOf } from "../../protocol/refusal.ts";
import type { PeerRef, RouteTaken, Sent, TaskShown, WhoAmI } from "../session/agent.ts";
import type { Lane, Life } from "../session/outbox-policy.ts";
import { ageOf, durationOf } from "./ages.ts";
import { quoted } from "./escape.ts";

/** `"alice" (ABCD-…)`: the local name, and the key that it stands for. */
export function nameOf({ petname, fingerprint }: PeerRef): string {
  return `${quoted(petname)} (${fingerprint})`;
}

/** A bus's own code in words. A newer bus may say one that we do not know. */
export function reasonOf(code: string): string {
  return isRefusalCode(code) ? `${code}: ${sentenceOf(code)}` : quoted(code);
}

/** All that is said of a message that was just handed over. */
export function sentFeedback({ peer, msg_id, life, route, task_id, in_reply_to }: Sent, nowMs: number): string {
  const about = [
    task_id === undefined ? "" : `, task ${quoted(task_id)}`,
    in_reply_to === undefined ? "" : `, in reply to ${quoted(in_reply_to)}`,
  ].join("");
  const head = `Message ${msg_id} for ${nameOf(peer)}${about}: ${lifeSentence(life, nowMs)}`;
  // Who is awake says nothing of a message that nobody holds any more.
  return life.state === "pending" || life.state === "stored" ? `${head} ${tierSentence(route)}` : head;
}

/** Who will get it, in four tiers: live, away, long away, gone. A live sibling is always named. */
export function tierSentence(route: RouteTaken): string {
  switch (route.to) {
    case "session": {
      const { session, presence, age_ms, live_sibling } = route;
      const sibling =
        live_sibling === undefined
          ? ""
          : ` Session ${live_sibling} of the same identity is live: pass session=${quoted(live_sibling)} to write to that one instead.`;
      if (presence === "live") return `Session ${session} is live; delivering.${sibling}`;
      const seen = `last seen ${ageOf(age_ms)}`;
      return isStale(age_ms, DEFAULT_LIMITS)
        ? `Session ${session} is away, ${seen}, so it may be gone; run discover.${sibling}`
        : `Session ${session} is away (asleep? ${seen}); it will get it when it wakes.${sibling}`;
    }
    case "remembered":
      return `Session ${route.session} is not on the roster (closed, or long dead); this may never be read; run discover.`;
    case "identity":
      return "No session of theirs is on the roster; this waits for the first that comes, and may never be read; run discover.";
    case "unseen":
      return route.session === undefined
        ? "The roster could not be read, so nobody knows who is there; it waits for the first of their sessions that comes."
        : `The roster could not be read, so nobody knows who is there; it waits for session ${route.session}.`;
  }
}

/** The tier as a word, for programs. */
export function tierOf(route: RouteTaken): "live" | "away" | "away_stale" | "gone" | "unknown" {
  if (route.to === "unseen") return "unknown";
  if (route.to !== "session") return "gone";
  if (route.presence === "live") return "live";
  return isStale(route.age_ms, DEFAULT_LIMITS) ? "away_stale" : "away";
}

/** Where a message stands. */
export function lifeSentence(life: Life, nowMs: number): string {
  switch (life.state) {
    case "pending":
      return life.was_stored
        ? `pending. A bus held it and has forgotten it, so the recipient may have it or not${lanesClause(life.lanes, nowMs)}; it is tried again by itself.`
        : `pending. It is kept on this machine and no bus has stored it yet${lanesClause(life.lanes, nowMs)}; it is tried again by itself.`;
    case "stored":
      return "stored. The bus keeps it until the recipient's machine has it.";
    case "refused":
      return `refused by bus ${quoted(life.bus)}, ${withoutStop(reasonOf(life.code))}. ${remedySentence(life.retry)}`;
    case "acked":
      return `acked ${ageOf(nowMs - life.at_ms)}. The recipient's machine has it; whether it was read is not known.`;
    case "expired":
      return life.why === "not_stored"
        ? `expired. No bus holds it${life.last === undefined ? "" : ` (last: ${withoutStop(reasonOf(life.last))})`}. Write it anew if it still matters.`
        : "expired. It waited on the bus and the recipient never took it. Write it anew if it still matters.";
    case "evicted":
      return "evicted. The bus dropped it to make room, before the recipient took it. Write it anew if it still matters.";
  }
}

/** The bus's code that a message waits for or failed by, for programs. */
export function lifeReason(life: Life): string | undefined {
  if (life.state === "refused") return life.code;
  if (life.state === "expired") return life.why;
  if (life.state !== "pending") return undefined;
  const codes = Object.values(life.lanes).map((lane) => (lane.state === "pending" ? lane.why : lane.code));
  return codes.length > 0 ? [...new Set(codes)].join(", ") : undefined;
}

function lanesClause(lanes: Readonly<Record<string, Lane>>, nowMs: number): string {
  const clauses = Object.entries(lanes).map(([bus, lane]) => {
    if (lane.state === "refused") return `bus ${quoted(bus)} refused it, ${withoutStop(reasonOf(lane.code))}`;
    const why = lane.why === "no_answer" ? "did not answer" : `says ${withoutStop(reasonOf(lane.why))}`;
    return `bus ${quoted(bus)} ${why}, next try in ${durationOf(lane.next_at_ms - nowMs)}`;
  });
  return clauses.length === 0 ? "" : ` (${clauses.join("; ")})`;
}

function remedySentence(retry: (Life & { readonly state: "refused" })["retry"]): string {
  switch (retry) {
    case "after_pairing":
      return "Pair first (request_pair), then write it anew.";
    case "after_admission":
      return "Ask your operator: the bus must admit this key first.";
    case "with_other_words":
      return "Change the text and write it anew.";
    case "as_a_new_message":
      return "Write it anew, as another message.";
    case undefined:
      return "It is not tried again.";
  }
}

function withoutStop(sentence: string): string {
  return sentence.replace(/\.$/, "");
}

/** What check_messages says beside the messages. */
export function mailSentence(count: number, left: number): string {
  if (count === 0) return "No unread messages.";
  const rest = left === 0 ? "none left unread" : `${left} more unread`;
  return `${counted(count, "message")}, ${rest}. Each line is one message, as JSON.`;
}

/** What stands above a talk. */
export function historySentence(peer: PeerRef, count: number, before: number | undefined): string {
  if (count === 0) return `No messages with ${nameOf(peer)} here.`;
  const more = before === undefined ? "Nothing before them is kept." : `What came before: before=${before}.`;
  return `${counted(count, "message")} with ${nameOf(peer)}, the oldest first; unread mail is not among them. ${more}`;
}

/** What stands above a roster. */
export function discoverSentence(
  { count, left }: { count: number; left: number },
  {
    partial,
    view_age_ms,
    stale_because,
  }: { readonly partial?: true; readonly view_age_ms: number; readonly stale_because?: string },
): string {
  const seen = count === 0 ? "No session is on the roster." : `${counted(count, "session")} on the roster.`;
  const more = left === 0 ? "" : ` ${left} more not shown: name a peer.`;
  // A view that could not be read at all says so itself.
  const unread = partial && stale_because === undefined ? " Not all strangers were read: there may be more." : "";
  const view =
    stale_because === undefined
      ? "Read just now."
      : `This view is ${durationOf(view_age_ms)} old: ${quoted(stale_because)}.`;
  return `${seen}${more}${unread} ${view}`;
}

/** What stands above open work. */
export function pendingSentence(unsent: number, tasks: readonly TaskShown[]): string {
  const ours = tasks.filter(({ owed_by }) => owed_by === "us").length;
  const theirs = tasks.filter(({ owed_by }) => owed_by === "peer").length;
  const work = tasks.length === 0 ? "No open tasks." : `Open tasks: ${ours} wait for us, ${theirs} for a peer.`;
  return `${unsent === 0 ? "No message waits to be stored." : `${counted(unsent, "message")} not stored yet.`} ${work}`;
}

/** Who we are. @param wakes how mail wakes us, as wakeSentence says it */
export function whoamiSentence(me: WhoAmI, wakes: string): string {
  const { name, fingerprint, session, bus, connection, reason, presence, unread, pending } = me;
  const seen = !presence
    ? "The bus could not be asked how it sees us."
    : presence.presence === "gone"
      ? "The bus does not list this session, or not yet."
      : `The bus sees this session as ${presence.presence}${presence.age_ms === undefined ? "" : `, last sign ${ageOf(presence.age_ms)}`}.`;
  const why = reason === undefined ? "" : ` (${quoted(reason)})`;
  return [
    `We are ${quoted(name)} (${fingerprint}), session ${session}, on bus ${quoted(bus)}: ${connection}${why}.`,
    seen,
    wakes,
    `${unread} unread, ${pending} not stored yet.`,
  ].join(" ");
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
