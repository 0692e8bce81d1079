/** Which buses there are: the user's file, read anew for each question, where the session began, and what is held. */

import { readBuses, readBusUrls, type BusesFileRefusal, type NamedBus } from "../trust/buses-file.ts";
import type { Target } from "./activation.ts";
import { isToolRefusal, type ToolRefusal } from "./agent.ts";
import { findBus, ofNamed, ofUrls, type BusTarget, type BusWorld } from "./bus-target.ts";
import type { SessionRefusal } from "./session.ts";

/** Where the original's bus listens. */
export const BUS_DEFAULT = "http://127.0.0.1:9440";

export type BusDirectoryRefusal =
  | Extract<SessionRefusal, { refused: "bus_url" | "bus_count" }>
  | { readonly refused: "buses_file"; readonly why: BusesFileRefusal }
  /** The name of a bus that the file does not have. */
  | { readonly refused: "unknown_bus"; readonly name: string };

export interface BusDirectoryOptions {
  /** Path of `buses.json`. */
  readonly buses: string;
  readonly bus?: string;
  /** Path of the usual key. */
  readonly key: string;
  readonly allowPrivate?: boolean;
}

export class BusDirectory {
  /** Where the session begins. */
  readonly home: BusTarget;
  readonly file: string;
  readonly #key: string;
  /** All that was ever asked for, so that a target can be told by name. */
  readonly #known = new Map<Target, BusTarget>();

  private constructor({ buses, key }: BusDirectoryOptions, home: BusTarget) {
    this.file = buses;
    this.#key = key;
    this.home = home;
    this.allow(home);
  }

  static open(options: BusDirectoryOptions): BusDirectory | BusDirectoryRefusal {
    const { buses: path, key, bus, allowPrivate = false } = options;
    const named = readBuses(path);
    const isUrl = bus?.includes("://") ?? false;
    if ("refused" in named) {
      // An address needs no file; but whoever relies on the file is not to land on another bus.
      if (!isUrl) return { refused: "buses_file", why: named };
      return BusDirectory.#at(options, new Map(), bus!, allowPrivate);
    }
    if (bus === undefined) {
      const [first] = named.values();
      if (first) return new BusDirectory(options, ofNamed(first, key));
    }
    const entry = bus === undefined ? undefined : named.get(bus.trim());
    if (entry) return new BusDirectory(options, ofNamed(entry, key));
    return BusDirectory.#at(options, named, bus ?? BUS_DEFAULT, allowPrivate);
  }

  static #at(
    options: BusDirectoryOptions,
    named: ReadonlyMap<string, NamedBus>,
    text: string,
    allowPrivate: boolean,
  ): BusDirectory | BusDirectoryRefusal {
    const read = readBusUrls(text, allowPrivate ? "private" : "public");
    if ("urls" in read) {
      const home = ofUrls(read.urls, options.key, allowPrivate ? "private" : "public");
      const listed = [...named.values()].map((each) => ofNamed(each, options.key)).find(({ id }) => id === home.id);
      return new BusDirectory(options, listed ?? { ...home, isListed: true });
    }
    if (read.why === "bus_count") return { refused: "bus_count", count: read.count };
    if (!text.includes("://") && named.size > 0) return { refused: "unknown_bus", name: text };
    return { refused: "bus_url", url: read.url, why: read.why };
  }

  find(word: string): BusTarget | ToolRefusal {
    const named = readBuses(this.file);
    if ("refused" in named) {
      // What is held is known without the file.
      const held = [...this.#known.values()].find(({ name, bus }) => name === word || bus === word);
      return held ?? ofFile(named);
    }
    const found = findBus(word, this.#world(named));
    if (!isToolRefusal(found) && !this.#known.has(found.id)) this.#known.set(found.id, found);
    return found;
  }

  named(): readonly BusTarget[] | ToolRefusal {
    const named = readBuses(this.file);
    if ("refused" in named) return ofFile(named);
    const listed = [...named.values()].map((each) => ofNamed(each, this.#key));
    for (const each of listed) if (!this.#known.has(each.id)) this.#known.set(each.id, each);
    return listed;
  }

  of(target: Target): BusTarget {
    const known = this.#known.get(target);
    if (!known) throw new Error("a bus that nobody asked for");
    return known;
  }

  allow(target: BusTarget): void {
    this.#known.set(target.id, { ...target, isListed: true });
  }

  #world(named: ReadonlyMap<string, NamedBus>): BusWorld {
    return { named, key: this.#key, known: [...this.#known.values()] };
  }
}

function ofFile(refusal: BusesFileRefusal): ToolRefusal {
  const { refused, path } = refusal;
  if (refused !== "bad_buses_file") return { code: "bad_file", detail: `${path} (${refused})` };
  const where = refusal.entry === undefined ? "" : ` at ${refusal.entry}`;
  return { code: "bad_file", detail: `${path} (${refusal.why}${where})` };
}
