/**
 * What lies on the bus for the identity and no agent has fetched, taken by a person. The bus gives it to the first session that
 * asks and never takes it back, so only a command that says so does this; where an agent is connected, it is the agent's.
 *
 * One poll after the other, without an announcement: it is a session to the bus's inboxes, but on no roster.
 */

import process from "node:process";
import type { SessionId } from "../../protocol/address.ts";
import { BATCH_MAX, DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { isOk } from "../bus/outcome.ts";
import { readGoodbye } from "../session/goodbye.ts";
import { openPairing } from "../state/open-pairing.ts";
import { keepOwner } from "../state/owner.ts";
import type { PairingStore } from "../state/pairing-store.ts";
import { sessionStatePath } from "../state/paths.ts";
import { openState, type State } from "../state/store.ts";
import { decide, verifyPayload, type Verdict } from "../trust/gate.ts";
import { receiveAnswer, receiveKnock, receiveKnockOfPeer } from "../trust/pairing.ts";
import { knockedAt } from "../trust/pairing-state.ts";
import type { PeerBook } from "../trust/peer-book.ts";
import { refuseOutcome, type Asker } from "./asker.ts";
import type { Desk } from "./desk.ts";
import { refuse, type ExitCode } from "./terminal.ts";
import { wordsOfPeers, wordsOfState } from "./words.ts";

export const CLI_SESSION = "cli" as SessionId;

interface Kept {
  readonly state: State;
  readonly pairing: PairingStore;
  readonly book: PeerBook;
}

/** On disk when it returns, and unread; 0 also if there was nothing. */
export async function fetchMail(desk: Desk, asker: Asker): Promise<ExitCode> {
  const { terminal, stateDirectory: directory, me, peers } = desk;
  const book = peers.current();
  // Nothing may be acked while it cannot be said who is a peer.
  if ("refused" in book) return refuse(terminal, wordsOfPeers(book), book.refused);
  const nowMs = Date.now();
  const uid = process.geteuid?.();
  const opened = openState({
    path: sessionStatePath(directory, me, CLI_SESSION),
    nowMs,
    ...(uid !== undefined && { uid }),
  });
  if ("refusal" in opened) return refuse(terminal, wordsOfState(opened), opened.refusal);
  const { state } = opened;
  keepOwner(state.meta, { key: me, session: CLI_SESSION });
  const paired = openPairing({ directory, me, nowMs, uid });
  if ("refusal" in paired) {
    state.close();
    return refuse(terminal, wordsOfState(paired), paired.refusal);
  }
  try {
    return await drain(desk, asker, { state, pairing: paired.pairing, book });
  } finally {
    paired.pairing.close();
    state.close();
  }
}

async function drain({ terminal, me }: Desk, { http, clock, url }: Asker, kept: Kept): Promise<ExitCode> {
  for (;;) {
    const polled = await http.recv(CLI_SESSION, { timeoutMs: 0, max: BATCH_MAX });
    if (!isOk(polled)) return refuseOutcome(terminal, polled, url);
    const { items } = polled.ok;
    if (items.length === 0) return 0;
    for (const { envelope } of items) {
      const message = await verifyPayload(envelope.payload, DEFAULT_LIMITS);
      if ("verdict" in message) continue;
      const world = {
        me,
        session: CLI_SESSION,
        inbox: { key: me, session: CLI_SESSION },
        petnames: kept.book.petnames,
        knocked: knockedAt(kept.pairing.read(), Date.now()),
        knownDigest: undefined,
        nowMs: clock.now(),
        limits: DEFAULT_LIMITS,
      };
      keep(decide(message, world), message.ts, url.origin, kept);
    }
    const acked = await http.ack(
      CLI_SESSION,
      items.map(({ ack }) => ack),
    );
    if (!isOk(acked)) return refuseOutcome(terminal, acked, url);
  }
}

/** What the gate lets in goes to where an agent of ours would have put it. */
function keep(verdict: Verdict, ts: number, bus: string, { state, pairing, book }: Kept): void {
  const nowMs = Date.now();
  switch (verdict.verdict) {
    case "accept": {
      const { message, digest, clock_ok, reply_session } = verdict;
      const { from, msg_id, text, task_id, status, in_reply_to } = message;
      const about = { ...(task_id && { task_id }), ...(status && { status }), ...(in_reply_to && { in_reply_to }) };
      const session = reply_session === undefined ? {} : { session: reply_session };
      const arrival = { from, msg_id, text, ts, digest, clock_ok, bus, ...session, ...about };
      if (readGoodbye(message)?.isBare) state.transaction(() => state.inbox.remember(arrival, nowMs));
      else state.receive([arrival], nowMs);
      return;
    }
    case "knock":
    case "knock_again":
      pairing.transaction(() => {
        const knock = { key: verdict.key, msg_id: verdict.msg_id, ts };
        if (!pairing.knocks.isNew(knock)) return;
        if (verdict.verdict === "knock_again") {
          // An agent of ours tells them that they are a peer.
          pairing.update((before) => ({ state: receiveKnockOfPeer(before, verdict, nowMs) }));
          pairing.knocks.keep(knock, nowMs);
        } else if (pairing.update((before) => receiveKnock(before, verdict, nowMs)).kept)
          pairing.knocks.keep(knock, nowMs);
      });
      return;
    case "pair_accept":
      pairing.update((before) => receiveAnswer(before, verdict, book.petnames.has(verdict.key), nowMs));
      return;
    case "duplicate":
    case "drop":
  }
}
