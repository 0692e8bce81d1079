/** What follows from an invite that a person took: they trust who sent it, the bus knows, and a knock is on its way. */

import { isRefusal } from "../../protocol/refusal.ts";
import { signDraft } from "../session/draft.ts";
import { keepInvitation, knockIdOf } from "../state/invitations.ts";
import { openPairing } from "../state/open-pairing.ts";
import type { InviteText } from "../trust/invite-text.ts";
import type { Operator } from "../trust/operator.ts";
import { requestPair } from "../trust/pairing.ts";
import type { Asker } from "./asker.ts";
import type { Desk } from "./desk.ts";
import { publishAt } from "./publish.ts";
import { refuse, type ExitCode } from "./terminal.ts";
import { wordsOfPeers, wordsOfState } from "./words.ts";

/** @param operator their word, about this key under this name */
export async function trustInviter(
  { terminal, me, peers }: Desk,
  asker: Asker,
  { key }: InviteText,
  petname: string,
  operator: Operator,
): Promise<ExitCode> {
  const added = await peers.add(petname, key, operator);
  if ("refused" in added) return refuse(terminal, wordsOfPeers(added), added.refused);
  // So that their mail is taken before an agent of ours has ever run.
  await publishAt(asker, me, peers);
  return 0;
}

/** Our agents knock until they are answered; the first time it is done here, so that their human need not wait for an agent of ours. */
export async function keepAndKnock(
  desk: Desk,
  { http, clock }: Asker,
  invite: InviteText,
  name: string,
): Promise<ExitCode> {
  const { terminal, identity, me, stateDirectory: directory } = desk;
  const nowMs = Date.now();
  const opened = openPairing({ directory, me, nowMs });
  if ("refusal" in opened) return refuse(terminal, wordsOfState(opened), opened.refusal);
  const { pairing } = opened;
  try {
    const { key, secret } = invite;
    const taken = { key, secret, at_ms: nowMs };
    keepInvitation(pairing, taken);
    const us = { name, ts: clock.now() };
    const msg_id = knockIdOf(taken, me, nowMs);
    const asked = pairing.update((state) => requestPair(state, { key, to: { key }, us, msg_id }, nowMs));
    if ("refused" in asked) return 0;
    const { text, ts, msg_id: id } = asked.send.fields;
    const draft = { to: { key }, text, kind: "pair_request" } as const;
    const payload = await signDraft(draft, { key: me, sign: async (bytes) => identity.sign(bytes) }, id, ts);
    if (!isRefusal(payload)) await http.send({ to: { key }, payload });
    return 0;
  } finally {
    pairing.close();
  }
}
