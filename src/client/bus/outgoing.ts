/** A signed message on its way to the bus, and its shape on the wire. */

import { formatRoute, type Route } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";

/** A signed message and the inbox it is for: a session's route, or the bare key. */
export interface Outgoing {
  readonly to: Route;
  readonly payload: Message;
}

export function toDelivery({ to, payload }: Outgoing): { to: string; payload: Message } {
  return { to: formatRoute(to), payload };
}
