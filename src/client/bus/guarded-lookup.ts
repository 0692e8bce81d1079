/**
 * Resolving a bus's name, and only to where its URL may lead: a name that anyone can register may point into the
 * own network, and may do so only after it was looked at. So the address that is checked is the one that is dialled.
 */

import { lookup, type LookupAddress, type LookupOptions } from "node:dns";
import type { LookupFunction } from "node:net";
import { reachOf, type BusUrl } from "./bus-url.ts";

/** Error code of a connection whose name leads only where it may not. */
export const FORBIDDEN_ADDRESS = "EFORBIDDENADDRESS";

type Resolve = (
  host: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** A lookup for the sockets of one bus. @param resolve the system's resolver if absent */
export function guardedLookup({ reach }: BusUrl, resolve: Resolve = lookup): LookupFunction {
  return (host, options, callback) => {
    resolve(host, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, "");
      const allowed = addresses.filter(({ address }) => reach === "any" || reachOf(address) === reach);
      const [first] = allowed;
      if (!first) {
        const forbidden = new Error(`the bus's name leads to no ${reach} address`);
        return callback(Object.assign(forbidden, { code: FORBIDDEN_ADDRESS }), "");
      }
      if (options.all) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
