/** Which buses there are, and how each stands, without asking any of them. */

import { fingerprint } from "../../protocol/address.ts";
import { isToolRefusal, type ToolRefusal } from "./agent.ts";
import type { BusDirectory } from "./bus-directory.ts";
import type { BusTarget } from "./bus-target.ts";
import type { BusAgent, BusShown } from "./buses.ts";
import type { OnBus } from "./on-bus.ts";
import type { Switchboard } from "./switchboard.ts";

type Board = Switchboard<OnBus, ToolRefusal>;

/** The active one, the parked ones with the latest used first, and those of the user's file that are not connected. */
export async function listBuses({
  board,
  directory,
}: {
  board: Board;
  directory: BusDirectory;
}): ReturnType<BusAgent["listBuses"]> {
  const { slot, parked } = board.standing;
  const active = "active" in slot ? [shownBus(board, directory.of(slot.active), "active")] : [];
  const beside = [...parked].reverse().map((target) => shownBus(board, directory.of(target), "parked"));
  const named = directory.named();
  if (isToolRefusal(named)) return { buses: [...active, ...beside], badFile: named };
  const others = named.filter(({ id }) => !board.of(id)).map((target) => shownBus(board, target, "named"));
  return { buses: [...active, ...beside, ...others] };
}

export function shownBus(board: Board, target: BusTarget, role: BusShown["role"]): BusShown {
  const session = board.of(target.id);
  const shown = { name: target.name, address: target.bus, role };
  if (!session) return { ...shown, connection: "disconnected", unread: 0, pending: 0 };
  return { ...shown, ...session.standing(), fingerprint: fingerprint(session.key), ...session.counts() };
}
