/** Tells the bus whom we admit now, at once: else mail of a new peer is refused until an agent of ours has looked into its files. */

import type { Key } from "../../protocol/address.ts";
import { isOk } from "../bus/outcome.ts";
import type { PeersFile } from "../trust/peers.ts";
import { askerAt, type Asker } from "./asker.ts";
import type { Desk } from "./desk.ts";

/** An agent says it anew whenever it connects, so whatever becomes of this is no matter. */
export async function publishContacts({ home, identity, peers }: Desk): Promise<void> {
  if (!("refused" in home)) await publishAt(askerAt(home.bus, home.profile, identity, peers), identity.key, peers);
}

export async function publishAt({ http, clock }: Asker, me: Key, peers: PeersFile): Promise<void> {
  const book = peers.current();
  if ("refused" in book) return;
  // Dated by the bus's clock: a date ahead of it would hold off what an agent says next.
  const askedAtMs = Date.now();
  const view = await http.rosterOf(me);
  if (!isOk(view)) return;
  clock.learn(view.ok.now_ms, askedAtMs);
  await http.contacts([...book.petnames.keys()]);
}
