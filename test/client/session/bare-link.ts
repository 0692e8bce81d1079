/** A link that has no session behind it: to a bus that the test stands in for. */

import { BusLink, type LinkEars, type LinkOptions } from "../../../src/client/session/bus-link.ts";
import { busUrl, sid } from "../bus/support.ts";

const NO_EARS: LinkEars = {
  onWelcome: () => {},
  onQueued: () => {},
  onAway: () => {},
  onMessages: () => {},
  onGap: () => {},
  onFault: (fault) => {
    throw fault;
  },
};

/** @param options what the test is about; all else is as quiet as can be */
export function bareLink(options: Pick<LinkOptions, "signer" | "timers"> & Partial<LinkOptions>): BusLink {
  return new BusLink({
    url: busUrl("http://127.0.0.1:1"),
    session: sid("s"),
    random: () => 0.5,
    heartbeatMs: 30_000,
    offsetMs: 0,
    introduce: () => ({ name: "n", session: { session_id: sid("s") } }),
    proven: () => undefined,
    // None are published, so that HTTP is not needed.
    contacts: () => undefined,
    ears: NO_EARS,
    ...options,
  });
}
