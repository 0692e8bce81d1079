/**
 * A process with the pairing of an identity open beside others, as a session or a command has it. Run by
 * pairing-store.test.ts: it waits for a common moment, does its part, and writes what came of it as JSON.
 */

import { writeSync } from "node:fs";
import { acceptRequest, rejectRequest } from "../../../src/client/session/pair-decision.ts";
import { openPairing } from "../../../src/client/state/open-pairing.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { receiveKnock } from "../../../src/client/trust/pairing.ts";
import { PeersFile } from "../../../src/client/trust/peers.ts";
import type { Key } from "../../../src/protocol/address.ts";

export interface Part {
  readonly directory: string;
  readonly peers: string;
  readonly me: Key;
  readonly nowMs: number;
  /** All begin at this time of the machine. */
  readonly atMs: number;
  readonly act: "knock" | "accept" | "reject";
  readonly keys: readonly Key[];
  /** Begins the names that it gives. */
  readonly prefix: string;
}

const { directory, peers: path, me, nowMs, atMs, act, keys, prefix } = JSON.parse(process.argv[2]!) as Part;
// A timer would come too late and too unevenly for them to meet.
while (Date.now() < atMs);
const opened = openPairing({ directory, me, nowMs });
if ("refusal" in opened) throw new Error(JSON.stringify(opened));
const { pairing } = opened;
const trust = { pairing, peers: new PeersFile({ path, me }) };
const outcomes: unknown[] = [];
for (const [n, key] of keys.entries()) {
  if (act === "knock") {
    const knock = { key, claimed_name: prefix, msg_id: `k${n}` };
    outcomes.push(pairing.update((state) => receiveKnock(state, knock, nowMs)).kept);
    continue;
  }
  const seen = pairing.read().pending.find((each) => each.key === key);
  const operator = Operator.attest(key, "cli");
  if (!seen) outcomes.push("gone");
  else if (act === "reject") outcomes.push(rejectRequest(trust, { seen, operator }, nowMs).outcome);
  else outcomes.push((await acceptRequest(trust, { seen, petname: `${prefix}${n}`, operator }, () => nowMs)).outcome);
}
pairing.close();
writeSync(1, JSON.stringify(outcomes));
