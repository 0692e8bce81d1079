/** Opens a session: the identity, the peers, the state and the buses, each checked, or the reason why it cannot be. */

import { randomBytes } from "node:crypto";
import process from "node:process";
import { fingerprint, parseSessionId } from "../../protocol/address.ts";
import { CWD_MAX_BYTES, DEFAULT_LIMITS, GIT_ROOT_MAX_BYTES, type Limits } from "../../protocol/constants.ts";
import { isName } from "../../protocol/schema.ts";
import { byteLength, isVisible } from "../../protocol/text.ts";
import type { BusUrlRefusalCode } from "../bus/bus-url.ts";
import { systemTimers, type Timers } from "../bus/timers.ts";
import { openBudget } from "../state/budget-file.ts";
import { adoptFormerOf } from "../state/former-pairing.ts";
import { openPairing } from "../state/open-pairing.ts";
import { keepOwner } from "../state/owner.ts";
import { sessionStatePath } from "../state/paths.ts";
import { openState, type StateRefusal } from "../state/store.ts";
import { readBusUrls } from "../trust/buses-file.ts";
import { openIdentity, type IdentityRefusal } from "../trust/identity-file.ts";
import { PeersFile } from "../trust/peers.ts";
import type { Agent } from "./agent.ts";
import type { Incident } from "./notices.ts";
import { Session } from "./running-session.ts";
import { settleHanded, type Witness } from "./settle-handed.ts";
import { addUntold } from "./untold.ts";

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
  /** Keeps this bus's session in files of its own, named after this; absent: the session's own. */
  readonly filesOf?: string;
  /** A bus no longer speaks this version of the client. */
  readonly onTooOld?: () => void;
  /** What we call ourselves: shown to peers, and to strangers who look at the roster. Absent: the fingerprint. */
  readonly name?: string;
  /** The same at every start of the same session; absent: a random one, which finds no inbox again. */
  readonly session?: string;
  /** Shown to contacts alone; left away where it is too long or has invisible characters. */
  readonly cwd?: string;
  readonly git_root?: string;
  /** What is known of the answers of the process before; absent: nothing. */
  readonly witness?: Witness;
  /** Takes https buses at private addresses. Default: false. */
  readonly allowPrivate?: boolean;
  /** What requests are signed for, where the bus is dialled at another address than its own. */
  readonly audience?: string;
  /** How long nothing more must come before a wake is made. Default: a second or two. */
  readonly wakeCalmMs?: number;
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
  /** Not one bus is named, or more than one bus may have. */
  | { readonly refused: "bus_count"; readonly count: number }
  | { readonly refused: "bad_name" }
  | { readonly refused: "bad_session" };

/** Opens a session. It is not announced, and receives nothing, before `begin()`. Throws where the disk refuses. */
export async function openSession(options: SessionOptions): Promise<Session | SessionRefusal> {
  const { timers = systemTimers, random = Math.random, limits = {} } = options;
  if (options.name !== undefined && !isName(options.name)) return { refused: "bad_name" };
  const session = parseSessionId(options.session ?? randomBytes(16).toString("hex"));
  if (session === undefined) return { refused: "bad_session" };
  const urls = readBusUrls(options.bus, options.allowPrivate === true ? "private" : "public");
  if ("count" in urls) return { refused: "bus_count", count: urls.count };
  if ("why" in urls) return { refused: "bus_url", ...urls };

  const opened = await openIdentity(options.key);
  if ("refused" in opened) return { refused: "identity", why: opened };
  const { identity, created } = opened;
  const nowMs = timers.now();
  const uid = process.geteuid?.();
  const directory = options.stateDirectory;
  // What is shared comes first: a throw behind it leaves no lock.
  const spent = openBudget(directory, identity.key, nowMs);
  if ("refusal" in spent) return { refused: "state", why: spent };
  const { budget } = spent;
  const paired = openPairing({ directory, me: identity.key, nowMs, uid });
  if ("refusal" in paired) {
    budget.close();
    return { refused: "state", why: paired };
  }
  const { pairing } = paired;
  const path = sessionStatePath(directory, identity.key, session, options.filesOf);
  const kept = openState({ path, nowMs, ...(uid !== undefined && { uid }) });
  if ("refusal" in kept) {
    budget.close();
    pairing.close();
    return { refused: "state", why: kept };
  }
  const { state, setAside } = kept;
  const { filesOf } = options;
  keepOwner(state.meta, { key: identity.key, session, ...(filesOf !== undefined && { bus: filesOf }) });
  adoptFormerOf(pairing, state.meta, nowMs);

  const incidents: Incident[] = [];
  if (created) incidents.push({ what: "new_key" });
  for (const aside of [setAside, spent.setAside, paired.setAside])
    if (aside !== undefined) incidents.push({ what: "set_aside", path: aside });
  // Told once, and shown by the history from now on.
  const unconfirmed = state.transaction(() => addUntold(state.meta, settleHanded(state, options.witness)));
  if (unconfirmed > 0) incidents.push({ what: "unconfirmed", count: unconfirmed });

  return new Session({
    identity,
    peers: new PeersFile({ path: options.peers, me: identity.key, now: () => timers.now() }),
    state,
    budget,
    pairing,
    urls: urls.urls,
    audience: options.audience,
    name: options.name ?? fingerprint(identity.key),
    session,
    cwd: labelOf(options.cwd, CWD_MAX_BYTES),
    git_root: labelOf(options.git_root, GIT_ROOT_MAX_BYTES),
    limits: { ...DEFAULT_LIMITS, ...limits },
    timers,
    random,
    wakeCalmMs: options.wakeCalmMs,
    onTooOld: options.onTooOld,
    incidents,
  });
}

/** True if it is not a session. */
export function isSessionRefusal(value: Agent | SessionRefusal): value is SessionRefusal {
  return "refused" in value;
}

function labelOf(text: string | undefined, maxBytes: number): string | undefined {
  return text !== undefined && isVisible(text) && byteLength(text) <= maxBytes ? text : undefined;
}
