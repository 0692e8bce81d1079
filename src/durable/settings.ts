/** The variables of a deployment, read once and whole: a bus with a wrong setting does not start. */

import { parseKey, type Key } from "../protocol/address.ts";
import { DEFAULT_LIMITS, type Limits } from "../protocol/constants.ts";

/** What a running bus is told from outside. */
export interface Settings {
  readonly limits: Limits;
  /** The bus's own origins; a token is signed for one of them. */
  readonly audiences: readonly string[];
  /** `open` serves the original's unauthenticated shapes, on a loopback audience only. */
  readonly access: "signed" | "open";
  /** `join`: only keys that redeemed an invite. */
  readonly admission: "open" | "join";
  /** A full inbox refuses, or evicts the oldest of the sender that holds most. */
  readonly overflow: "refuse" | "evict";
  /** Keys that may invite and read counters; admitted without an invite. */
  readonly adminKeys: ReadonlySet<Key>;
  /** Allowed Host headers, or undefined where the platform routes by host. */
  readonly hosts: ReadonlySet<string> | undefined;
  /** `all`: a line a request; `faults`: only what went wrong in the bus itself. */
  readonly log: "all" | "faults";
  /** Directory objects; fixed for the life of a bus, since a key's shard follows from it. */
  readonly directoryShards: number;
}

/** A setting that cannot be meant: the operator's to mend, so thrown at start and not answered to a client. */
export class SettingsFault extends Error {
  override readonly name = "SettingsFault";
}

const LOOPBACK = /^https?:\/\/(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?$/;

/**
 * Reads the variables. Unset and empty ones take their defaults.
 * @throws SettingsFault naming the variable and what it takes
 */
export function readSettings(variables: Readonly<Record<string, unknown>>): Settings {
  const text = (name: string) => {
    const value = variables[name];
    return value === undefined || value === null ? "" : String(value).trim();
  };
  const list = (name: string) =>
    text(name)
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "");
  const oneOf = <Word extends string>(name: string, words: readonly [Word, ...Word[]]): Word => {
    const value = text(name) || words[0];
    const word = words.find((candidate) => candidate === value);
    if (!word) throw new SettingsFault(`${name} is "${value}", but takes ${words.join(" or ")}.`);
    return word;
  };
  const whole = (name: string, fallback: number) => {
    const value = text(name) === "" ? fallback : Number(text(name));
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new SettingsFault(`${name} is "${text(name)}", but takes a whole number above 0.`);
    }
    return value;
  };

  const audiences = list("AUDIENCE");
  if (audiences.length === 0)
    throw new SettingsFault("AUDIENCE is empty, but takes the bus's own origins, like https://bus.example.");
  for (const audience of audiences) {
    if (!isOrigin(audience))
      throw new SettingsFault(`AUDIENCE has "${audience}", which is not an origin like https://bus.example.`);
  }
  const access = oneOf("ACCESS", ["signed", "open"]);
  if (access === "open") {
    const foreign = audiences.find((audience) => !LOOPBACK.test(audience));
    if (foreign) {
      throw new SettingsFault(
        `ACCESS=open lets anyone read any inbox, so it needs a loopback AUDIENCE; "${foreign}" is not one. Use ACCESS=signed.`,
      );
    }
  }
  const admission = oneOf("ADMISSION", ["open", "join"]);
  if (access === "open" && admission === "join") {
    throw new SettingsFault("ACCESS=open serves anyone, so ADMISSION=join would hold nobody off. Use one of them.");
  }
  const hosts = list("HOSTS");
  return {
    limits: Object.fromEntries(
      Object.entries(DEFAULT_LIMITS).map(([name, fallback]) => [name, whole(name, fallback)]),
    ) as Limits,
    audiences,
    access,
    admission,
    overflow: oneOf("OVERFLOW", ["refuse", "evict"]),
    adminKeys: new Set(
      list("ADMIN_KEYS").map((value) => {
        const key = parseKey(value);
        if (!key) throw new SettingsFault(`ADMIN_KEYS has "${value}", which is not a key.`);
        return key;
      }),
    ),
    hosts: hosts.length > 0 ? new Set(hosts) : undefined,
    log: oneOf("LOG", ["all", "faults"]),
    directoryShards: whole("DIRECTORY_SHARDS", 8),
  };
}

/** One reading for a set of bindings: an isolate serves many requests and objects with the same. */
const settingsByBindings = new WeakMap<Readonly<Record<string, unknown>>, Settings>();

/** The settings of a deployment, read once. @throws SettingsFault as {@link readSettings} does */
export function settingsOf(bindings: Readonly<Record<string, unknown>>): Settings {
  const settings = settingsByBindings.get(bindings) ?? readSettings(bindings);
  settingsByBindings.set(bindings, settings);
  return settings;
}

function isOrigin(text: string): boolean {
  try {
    return new URL(text).origin === text;
  } catch {
    return false;
  }
}
