/** PURE. Which bus is meant: a name of `buses.json`, or an address, as one target that two words for the same bus share. */

import type { BusUrl } from "../bus/bus-url.ts";
import { readBusUrls, type BusProfile, type NamedBus } from "../trust/buses-file.ts";
import type { Target } from "./activation.ts";
import type { ToolRefusal } from "./agent.ts";

/** A bus, and as whom we are there. */
export interface BusTarget {
  readonly id: Target;
  /** Its origins in one order, whatever order they were given in. */
  readonly origins: string;
  /** The user's name for it, else its address. */
  readonly name: string;
  /** As `openSession` takes it. */
  readonly bus: string;
  /** Path of the key. */
  readonly key: string;
  readonly profile: BusProfile;
  /** The user named it, in the file or in the settings; else a word of the user's is needed. */
  readonly isListed: boolean;
}

/** Near names in a refusal. */
const NEAR_MAX = 8;

/** What is known when a word for a bus is read. */
export interface BusWorld {
  readonly named: ReadonlyMap<string, NamedBus>;
  /** Path of the usual key. */
  readonly key: string;
  /** What is held already, by whatever word. */
  readonly known: readonly BusTarget[];
}

export function findBus(text: string, world: BusWorld): BusTarget | ToolRefusal {
  const word = text.trim();
  const named = world.named.get(word);
  if (named) return ofNamed(named, world.key);
  const known = world.known.find(({ name }) => name === word);
  if (known) return known;
  if (!word.includes("://")) {
    const names = [...new Set([...world.named.keys(), ...world.known.map(({ name }) => name)])];
    return { code: "unknown_bus", candidates: names.slice(0, NEAR_MAX) };
  }
  // An address that is private is one only where the file says so.
  const read = readBusUrls(word, "public");
  const listed = [...world.named.values()].map((each) => ofNamed(each, world.key));
  const same = (urls: readonly BusUrl[]) => {
    const { id, origins } = ofUrls(urls, world.key, "public");
    // With another key, too, if that is how the user named it.
    return (
      [...world.known, ...listed].find((each) => each.id === id) ?? listed.find((each) => each.origins === origins)
    );
  };
  if ("urls" in read) return same(read.urls) ?? ofUrls(read.urls, world.key, "public");
  const there = readBusUrls(word, "private");
  return ("urls" in there ? same(there.urls) : undefined) ?? { code: "bad_bus_url", detail: read.why };
}

export function ofNamed({ name, urls, key, profile }: NamedBus, usualKey: string): BusTarget {
  return { ...ofUrls(urls, key ?? usualKey, profile), name, isListed: true };
}

/** A bus that nobody has named. */
export function ofUrls(urls: readonly BusUrl[], key: string, profile: BusProfile): BusTarget {
  const bus = urls.map(({ origin }) => origin).join(",");
  const origins = urls
    .map(({ origin }) => origin)
    .sort()
    .join(",");
  return { id: `${origins} ${key}`, origins, name: bus, bus, key, profile, isListed: false };
}
