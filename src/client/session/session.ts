/** Opens a session: the identity, the peers, the state and the buses, each checked, or the reason why it cannot be. */

import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import process from "node:process";
import { parseSessionId, type Key, type SessionId } from "../../protocol/address.ts";
import { CWD_MAX_BYTES, DEFAULT_LIMITS, GIT_ROOT_MAX_BYTES, type Limits } from "../../protocol/constants.ts";
import { isName } from "../../protocol/schema.ts";
import { byteLength, isVisible } from "../../protocol/text.ts";
import { parseBusUrl, type BusUrl, type BusUrlRefusalCode } from "../bus/bus-url.ts";
import { systemTimers, type Timers } from "../bus/timers.ts";
import { openState, type StateRefusal } from "../state/store.ts";
import { openIdentity, type IdentityRefusal } from "../trust/identity-file.ts";
import { PeersFile } from "../trust/peers.ts";
import type { Agent } from "./agent.ts";
import type { Incident } from "./notices.ts";
import { Session } from "./running-session.ts";

export type { Session };

export interface SessionOptions {
  /** Path of `id.key`; made where there is none. With {@link peers}: of `trustPaths`. */
  readonly key: string;
  /** Path of `peers.json`. */
  readonly peers: string;
  /** Folder of the sessions' files; made where there is none. */
  readonly stateDirectory: string;
  /** Origins of buses, separated by commas; the first is preferred, all are used. */
  readonly bus: string;
  /** What we call ourselves: shown to peers, and to strangers who look at the roster. */
  readonly name: string;
  /** The same at every start of the same session; absent: a random one, which finds no inbox again. */
  readonly session?: string;
  /** Shown to contacts alone; left away where it is too long or has invisible characters. */
  readonly cwd?: string;
  readonly git_root?: string;
  /** Takes https buses at private addresses. Default: false. */
  readonly allowPrivate?: boolean;
  /** What requests are signed for, where the bus is dialled at another address than its own. */
  readonly audience?: string;
  /** Limits of the bus where they are not the default. */
  readonly limits?: Partial<Limits>;
  /** Default: the system's. */
  readonly timers?: Timers;
  /** In [0, 1), for jitter. Default: Math.random. */
  readonly random?: () => number;
}

/** Why there is no session. Nothing was left open. */
export type SessionRefusal =
  | { readonly refused: "identity"; readonly why: IdentityRefusal }
  | { readonly refused: "state"; readonly why: StateRefusal }
  | { readonly refused: "bus_url"; readonly url: string; readonly why: BusUrlRefusalCode }
  /** Not one bus is named, or more than {@link BUSES_MAX}. */
  | { readonly refused: "bus_count"; readonly count: number }
  | { readonly refused: "bad_name" }
  | { readonly refused: "bad_session" };

/** Each costs a socket and a roster look at every send. */
export const BUSES_MAX = 4;

/** Opens a session. It is not announced, and receives nothing, before `begin()`. Throws where the disk refuses. */
export async function openSession(options: SessionOptions): Promise<Session | SessionRefusal> {
  const { timers = systemTimers, random = Math.random, limits = {} } = options;
  if (!isName(options.name)) return { refused: "bad_name" };
  const session = parseSessionId(options.session ?? randomBytes(16).toString("hex"));
  if (session === undefined) return { refused: "bad_session" };
  const urls = readUrls(options);
  if ("refused" in urls) return urls;

  const opened = await openIdentity(options.key);
  if ("refused" in opened) return { refused: "identity", why: opened };
  const { identity, created } = opened;
  const nowMs = timers.now();
  const uid = process.geteuid?.();
  const path = sessionStatePath(options.stateDirectory, identity.key, session);
  const kept = openState({ path, nowMs, ...(uid !== undefined && { uid }) });
  if ("refusal" in kept) return { refused: "state", why: kept };
  const { state, setAside } = kept;

  const incidents: Incident[] = [];
  if (created) incidents.push({ what: "new_key" });
  if (setAside !== undefined) incidents.push({ what: "set_aside", path: setAside });
  // Told once, and shown by the history from now on.
  const handed = state.inbox.handed().map(({ seq }) => seq);
  if (handed.length > 0) incidents.push({ what: "unconfirmed", count: handed.length });
  state.inbox.confirmHanded(handed);

  return new Session({
    identity,
    peers: new PeersFile({ path: options.peers, me: identity.key, now: () => timers.now() }),
    state,
    urls: urls.urls,
    audience: options.audience,
    name: options.name,
    session,
    cwd: labelOf(options.cwd, CWD_MAX_BYTES),
    git_root: labelOf(options.git_root, GIT_ROOT_MAX_BYTES),
    limits: { ...DEFAULT_LIMITS, ...limits },
    timers,
    random,
    incidents,
  });
}

/** True if it is not a session. */
export function isSessionRefusal(value: Agent | SessionRefusal): value is SessionRefusal {
  return "refused" in value;
}

/**
 * The file of a session: by key and id, so that neither two identities nor two sessions in one folder collide. A file
 * system may not tell upper from lower case, so the digest does.
 */
export function sessionStatePath(directory: string, key: Key, session: SessionId): string {
  const digest = createHash("sha256").update(`${key}#${session}`).digest("hex").slice(0, 16);
  return join(directory, `${session.slice(0, 40)}-${digest}.db`);
}

function readUrls({ bus, allowPrivate = false }: SessionOptions): { readonly urls: BusUrl[] } | SessionRefusal {
  const urls = new Map<string, BusUrl>();
  for (const text of bus.split(",").map((part) => part.trim())) {
    if (text === "") continue;
    const url = parseBusUrl(text, { allowPrivate });
    if ("refusal" in url) return { refused: "bus_url", url: text, why: url.refusal };
    urls.set(url.origin, url);
  }
  const isFew = urls.size >= 1 && urls.size <= BUSES_MAX;
  return isFew ? { urls: [...urls.values()] } : { refused: "bus_count", count: urls.size };
}

function labelOf(text: string | undefined, maxBytes: number): string | undefined {
  return text !== undefined && isVisible(text) && byteLength(text) <= maxBytes ? text : undefined;
}
