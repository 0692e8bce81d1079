/** Tells the bus whom we admit now, at once: else mail of a new peer is refused until an agent of ours has looked into its files. */

import { askerAt } from "./asker.ts";
import type { Desk } from "./desk.ts";

/** An agent says it anew whenever it connects, so whatever becomes of this is no matter. */
export async function publishContacts({
  home,
  identity,
  peers,
}: Pick<Desk, "home" | "identity" | "peers">): Promise<void> {
  const book = peers.current();
  if ("refused" in home || "refused" in book) return;
  await askerAt(home.bus, home.profile, identity, peers).http.contacts([...book.petnames.keys()]);
}
