/**
 * A session that is killed after its operator has accepted a knock, before the peer is told. Run by pairing.test.ts with
 * {@link Doomed} as JSON: it says on a line how far it is, and then does nothing more.
 */

import { writeSync } from "node:fs";
import { setInterval } from "node:timers";
import { Outbox } from "../../../src/client/session/outbox.ts";
import { acceptRequest } from "../../../src/client/session/pair-decision.ts";
import type { SessionOptions } from "../../../src/client/session/session.ts";
import { openPairing } from "../../../src/client/state/open-pairing.ts";
import { sessionStatePath } from "../../../src/client/state/paths.ts";
import { openState } from "../../../src/client/state/store.ts";
import { openIdentity } from "../../../src/client/trust/identity-file.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { claimAnswers } from "../../../src/client/trust/owed-answers.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import { isRefusal } from "../../../src/protocol/refusal.ts";
import { parseRoute, parseSessionId } from "../../../src/protocol/address.ts";

export interface Doomed {
  readonly options: SessionOptions;
  readonly petname: string;
  /** The last thing that it does. */
  readonly until: "accepted" | "claimed" | "queued";
  /** By its clock. */
  readonly nowMs: number;
}

const { options, petname, until, nowMs } = JSON.parse(process.argv[2]!) as Doomed;
const session = parseSessionId(options.session!)!;
const opened = await openIdentity(options.key);
if ("refused" in opened) throw new Error(opened.refused);
const { identity } = opened;
const directory = options.stateDirectory;
const paired = openPairing({ directory, me: identity.key, nowMs });
const kept = openState({ path: sessionStatePath(directory, identity.key, session), nowMs });
if ("refusal" in paired || "refusal" in kept) throw new Error("refused");
const { pairing } = paired;
const peers = new PeersFile({ path: options.peers, me: identity.key });

const seen = pairing.read().pending[0]!;
const operator = Operator.attest(seen.key, "elicitation");
const made = await acceptRequest({ pairing, peers }, { seen, petname, operator }, () => nowMs);
if (made.outcome !== "made") throw new Error(JSON.stringify(made));
let msg_id = "";
if (until !== "accepted") {
  const { tell } = pairing.update((state) => {
    const { owed, tell: said } = claimAnswers(state.owed, { session, us: { name: options.name!, ts: nowMs } }, nowMs);
    return { state: { ...state, owed }, tell: said };
  });
  const { to: text, fields } = tell[0]!.send;
  msg_id = fields.msg_id;
  if (until === "queued") {
    const author = { key: identity.key, session, sign: async (bytes: Uint8Array<ArrayBuffer>) => identity.sign(bytes) };
    const outbox = new Outbox({ state: kept.state, author, buses: () => [options.bus], random: Math.random });
    const to = parseRoute(text);
    if (isRefusal(to)) throw new Error(to.refused);
    const { ts, text: name, in_reply_to } = fields;
    const draft = { to, ts, text: name, msg_id, kind: "pair_accept", in_reply_to: in_reply_to! } as const;
    const queued = await outbox.enqueue(draft, nowMs);
    if (isRefusal(queued)) throw new Error(queued.refused);
  }
}
writeSync(1, `${msg_id}\n`);
setInterval(() => undefined, 60_000);
