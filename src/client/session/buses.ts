/** What the tools ask of a session that may be on several buses: an agent on the active one, and which bus that is. */

import type { Key } from "../../protocol/address.ts";
import type { Operator } from "../trust/operator.ts";
import type { Agent, ToolRefusal, WhoAmI } from "./agent.ts";
import type { Standing } from "./bus-standing.ts";

/** A bus that is held, or could be. */
export interface BusShown extends Standing {
  /** The user's name for it, else its address. */
  readonly name: string;
  readonly address: string;
  /** `named`: in the file, and not connected. */
  readonly role: "active" | "parked" | "named";
  /** Of the key that is used there; absent: it was not opened. */
  readonly fingerprint?: string;
  readonly unread: number;
  readonly pending: number;
}

/** A word for a bus, understood. */
export interface BusMeant {
  readonly name: string;
  readonly address: string;
  /** The user has named it; else they are asked, for `connectBus`. */
  readonly isListed: boolean;
  /** Of whom they are asked: as whom we would be there. */
  readonly key: Key;
  /** Where the user names buses. */
  readonly file: string;
}

/** Why the session is not where it was, or nothing comes in. */
export interface Drop {
  readonly what:
    /** Another bus became active; it is parked, and may be there still. */
    | "switched"
    /** Lost, or closed by the user. */
    | "disconnected"
    /** The bus refused it for good, so it is not retried. */
    | "evicted";
  readonly bus: string;
  /** A stable code. */
  readonly reason?: string;
  /** The call that mends it. */
  readonly mend: { readonly tool: "connect_bus"; readonly bus: string } | { readonly tool: "reconnect" };
}

export interface WhoAmIThere extends WhoAmI {
  readonly bus_name: string;
  readonly parked: readonly string[];
  readonly last_drop?: Drop;
}

export interface BusAgent extends Agent {
  whoami(): Promise<WhoAmIThere>;
  findBus(bus: string): Promise<BusMeant | ToolRefusal>;
  /**
   * Makes a bus the active one, and parks the one before. If it cannot be used all stays as it is.
   * @param operator about {@link BusMeant.key}, where the bus is not listed
   */
  connectBus(bus: string, operator?: Operator): Promise<BusShown | ToolRefusal>;
  /** Goodbye on a bus, and no return to it by itself. @param bus absent: the active one */
  disconnectBus(bus?: string): Promise<{ readonly name: string } | ToolRefusal>;
  listBuses(): Promise<{ readonly buses: readonly BusShown[]; readonly badFile?: ToolRefusal }>;
}
