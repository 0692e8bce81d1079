/** What a session must know of the bus that it is not on any more, or that it is cut off from, as its buses stand now. */

import type { ToolRefusal } from "./agent.ts";
import type { BusDirectory } from "./bus-directory.ts";
import type { Drop } from "./buses.ts";
import { dropOf } from "./drop.ts";
import type { OnBus } from "./on-bus.ts";
import type { Switchboard } from "./switchboard.ts";

export interface Buses {
  readonly board: Switchboard<OnBus, ToolRefusal>;
  readonly directory: BusDirectory;
  /** The session has begun. */
  readonly isOn: () => boolean;
}

export function dropNow({ board, directory, isOn }: Buses): Drop | undefined {
  const { slot, departed, recoveries } = board.standing;
  const session = board.active;
  const nameOf = (target: string) => directory.of(target).name;
  const active =
    session && "active" in slot
      ? { name: nameOf(slot.active), standing: session.standing(), isStopped: !session.isThere }
      : undefined;
  const hasLeft = isOn() && slot.at === "empty" && recoveries.length === 0;
  const left = hasLeft ? { left: directory.home.name } : {};
  return dropOf({ ...(active && { active }), ...(departed && { departed }), ...left, nameOf });
}
