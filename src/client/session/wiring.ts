/** How the parts of a session hold together: who tells whom of what, and in which order all of it ends. */

import { randomBytes } from "node:crypto";
import type { Key, SessionId } from "../../protocol/address.ts";
import { BATCH_MAX, type Limits } from "../../protocol/constants.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { BusUrl } from "../bus/bus-url.ts";
import type { BusClock } from "../bus/clock.ts";
import type { Outgoing } from "../bus/outgoing.ts";
import type { Introduction } from "../bus/sign-presence.ts";
import type { Timers } from "../bus/timers.ts";
import type { BudgetFile } from "../state/budget-file.ts";
import type { Arrival } from "../state/inbox.ts";
import type { PairingStore } from "../state/pairing-store.ts";
import type { State } from "../state/store.ts";
import type { Identity } from "../trust/identity-file.ts";
import type { PeersFile } from "../trust/peers.ts";
import { Addressing } from "./addressing.ts";
import { Backlog } from "./backlog.ts";
import { BusLink, type LinkEars } from "./bus-link.ts";
import { Correspondence } from "./correspondence.ts";
import { Departures } from "./departures.ts";
import { signDraft, type Author } from "./draft.ts";
import { goodbyeText } from "./goodbye.ts";
import { Guard } from "./guard.ts";
import { Incidents } from "./incidents.ts";
import type { Incident } from "./notices.ts";
import { Outbox, type Changed } from "./outbox.ts";
import { PairingDesk } from "./pairing-desk.ts";
import { PeersWatch } from "./peers-watch.ts";
import { Reach } from "./reach.ts";
import { Receiver } from "./receiver.ts";
import { RosterBook } from "./roster-book.ts";
import { Sender } from "./sender.ts";
import { Wakes } from "./wakes.ts";
import { within } from "./within.ts";

/** What a session is made of, opened and checked. */
export interface SessionParts {
  readonly identity: Identity;
  readonly peers: PeersFile;
  readonly state: State;
  /** The loop guard's, shared with the identity's other sessions. */
  readonly budget: BudgetFile;
  /** Shared with them too, and with the commands. */
  readonly pairing: PairingStore;
  readonly urls: readonly BusUrl[];
  readonly audience?: string | undefined;
  readonly name: string;
  readonly session: SessionId;
  readonly cwd?: string | undefined;
  readonly git_root?: string | undefined;
  readonly limits: Limits;
  readonly timers: Timers;
  readonly random: () => number;
  readonly wakeCalmMs?: number | undefined;
  /** A bus no longer speaks this version. */
  readonly onTooOld?: (() => void) | undefined;
  /** What opening them has shown. */
  readonly incidents: readonly Incident[];
}

export interface Wiring {
  readonly links: readonly BusLink[];
  readonly sender: Sender;
  readonly receiver: Receiver;
  readonly rosters: RosterBook;
  readonly addressing: Addressing;
  readonly correspondence: Correspondence;
  readonly pairing: PairingDesk;
  readonly watch: PeersWatch;
  readonly backlog: Backlog;
  readonly incidents: Incidents;
  readonly departures: Departures;
  readonly guard: Guard;
  readonly wakes: Wakes;
  /** The buses are told; resolves when they know, or when that takes too long. */
  peersChanged(): Promise<void>;
  readonly reach: Reach;
  /** Goodbye, unregister, and nothing more of the buses; what is on this machine can still be read. */
  leave(withinMs: number): Promise<void>;
  /** Closes the files, behind {@link leave}. */
  end(): void;
}

/** Where the summary is kept, so that a restart says the same of itself. */
export const SUMMARY = "summary";
/** A change of trust is done when the buses know of it, but it is not undone because one is away. */
const PUBLISH_WAIT_MS = 2_500;
const PRUNE_EVERY_MS = 86_400_000;

export function wire(parts: SessionParts): Wiring {
  const { identity, peers, state, budget, urls, session, limits, timers, random, name } = parts;
  const me = { key: identity.key, session };
  const author: Author = { ...me, sign: async (bytes) => identity.sign(bytes) };
  const incidents = new Incidents(parts.incidents);
  const departures = new Departures();
  let prunedAtMs = timers.now();

  const onIncident = (incident: Incident): void => incidents.note(incident);
  const onFault = (fault: unknown): void => incidents.note({ what: "fault", code: codeOf(fault) });
  const onChanged = ({ msg_id, peer, life }: Changed): void => {
    const isLost = life.state === "refused" || life.state === "expired" || life.state === "evicted";
    if (isLost) incidents.note({ what: "settled", msg_id, petname: addressing.ref(peer).petname, life });
  };
  const ears: LinkEars = {
    onWelcome(link, generation) {
      // A throw from here would end the process, and the state is not what a socket depends on.
      try {
        meet(link, generation);
      } catch (fault) {
        onFault(fault);
      }
    },
    onQueued(link, queued) {
      if (queued === 0) backlog.settled(link.name);
      reach.changed();
    },
    onAway(link) {
      backlog.settled(link.name);
      reach.changed();
      const { state: at } = link;
      if (at.at === "stopped" && at.why.by === "client_too_old") parts.onTooOld?.();
    },
    onMessages: (link, items, generation) => {
      void receiver.take(link, items, generation).then(() => backlog.settled(link.name));
    },
    onGap: (link, { count }) => incidents.note({ what: "gap", bus: link.name, count }),
    onFault,
  };

  const watch = new PeersWatch({ peers, timers, onFault, onChange: peersChanged });
  const links = urls.map((url) => {
    const { audience } = parts;
    const offsetMs = state.meta.clockOffsetMs(url.origin);
    const own = {
      url,
      session,
      signer: identity,
      timers,
      random,
      heartbeatMs: limits.HEARTBEAT_MS,
      audience,
      offsetMs,
    };
    const introduce = () => introductionOf(parts);
    return new BusLink({ ...own, introduce, proven: () => wakes.proven, contacts: () => watch.contacts(), ears });
  });
  const buses = links.map((link) => link.name);
  const reach = new Reach(() => links.map((link) => link.state), timers);
  const backlog = new Backlog(buses, timers);
  const outbox = new Outbox({ state, author, buses: () => buses, random });
  const isPeer = (key: Key): boolean => key === me.key || (watch.contacts()?.includes(key) ?? false);
  const newLifeAtMs = (bus: string): number | undefined => {
    const text = state.meta.get(newLifeName(bus));
    return text === undefined ? undefined : Number(text);
  };
  const sender = new Sender({ outbox, links, timers, isPeer, newLifeAtMs, onChanged, onFault });
  const rosters = new RosterBook(links, timers);
  const addressing = new Addressing({ me: me.key, session, peers, state, rosters, limits });
  const onTold = (msg_id: string): void => incidents.forget(msg_id);
  const nameOf = (peer: Key) => addressing.ref(peer);
  const guard = new Guard({ ledger: budget, meta: state.meta, timers, nameOf, onIncident });
  const wakes = new Wakes({ guard, inbox: state.inbox, nameOf, timers, calmMs: parts.wakeCalmMs });
  const talk = { state, outbox, sender, addressing, timers, session, guard, onTold };
  const correspondence = new Correspondence(talk);
  const onQueued = (): void => sender.kick();
  const desk = { me: me.key, pairing: parts.pairing, peers, outbox, timers, session, name, onFault };
  const pairing = new PairingDesk({ ...desk, onPeersChanged: publish, onQueued });
  const onMail = (arrivals: readonly Arrival[]): void => wakes.mailCame(arrivals.map(({ from }) => from));
  const onGoodbye = (peer: Key, wasOurs: boolean): void => {
    rosters.forget(peer);
    departures.note({ petname: addressing.ref(peer).petname, wasOurs });
  };
  const receiver = new Receiver({ state, peers, pairing, me, limits, timers, onMail, onGoodbye, onFault });

  /** A bus is there (again), in this life of its storage. */
  function meet(link: BusLink, generation: string): void {
    const { meta } = state;
    const known = meta.generation(link.name);
    const isNewLife = known !== undefined && known !== generation;
    meta.setClockOffsetMs(link.name, Math.round(link.clock.offsetMs)); // what is signed has whole milliseconds
    if (isNewLife) meta.set(newLifeName(link.name), String(timers.now()));
    sender.welcome(link.name, isNewLife);
    // After the outbox knows: a crash in between finds the old one, and says it again.
    meta.setGeneration(link.name, generation);
    if (isNewLife) incidents.note({ what: "new_life", bus: link.name });
    if (timers.now() - prunedAtMs < PRUNE_EVERY_MS) return;
    prunedAtMs = timers.now();
    state.prune(link.clock.now());
    parts.pairing.prune(link.clock.now());
  }

  function publish(): Promise<void> {
    const told = Promise.all(links.map((link) => link.publish())).then(() => undefined);
    return within(told, PUBLISH_WAIT_MS, undefined, timers);
  }

  async function peersChanged(): Promise<void> {
    await publish();
    await pairing.settle();
  }

  async function leave(withinMs: number): Promise<void> {
    watch.stop();
    sender.close();
    receiver.close();
    wakes.close();
    const hasBegun = links.some((link) => link.state.at !== "idle");
    const goodbyes = hasBegun ? await goodbyesOf(links[0]?.clock) : [];
    const left = Promise.all(links.map((link) => link.leave(goodbyes, goodbyesOf)));
    await within<unknown>(left, withinMs, undefined, timers);
    for (const link of links) link.close();
  }

  function end(): void {
    pairing.close();
    state.close();
    budget.close();
  }

  /** To every session that we talk with, also those of our own identity; the latest, if there are too many for one frame. */
  async function goodbyesOf(clock: Pick<BusClock, "now"> = timers): Promise<Outgoing[]> {
    const talks = state.routes.all().filter(({ peer }) => isPeer(peer));
    const signed = talks.slice(0, BATCH_MAX).map(async ({ peer, session: theirs }) => {
      const to = { key: peer, session: theirs };
      const ts = clock.now();
      const payload = await signDraft({ to, text: goodbyeText(session) }, author, randomBytes(16).toString("hex"), ts);
      return isRefusal(payload) ? [] : [{ to, payload }];
    });
    return (await Promise.all(signed)).flat();
  }

  const told = { leave, reach, addressing, backlog, incidents, departures, guard, wakes, watch, peersChanged };
  return { links, sender, receiver, rosters, correspondence, pairing, end, ...told };
}

const newLifeName = (bus: string): string => `new_life_at_ms:${bus}`;

function introductionOf({ name, session, cwd, git_root, state }: SessionParts): Introduction {
  const summary = state.meta.get(SUMMARY);
  const said = { ...(cwd && { cwd }), ...(git_root && { git_root }), ...(summary && { summary }) };
  return { name, session: { session_id: session, ...said } };
}

/** What may be told of a fault: its code or its kind, no path and no text. */
function codeOf(fault: unknown): string {
  if (typeof fault !== "object" || fault === null) return "unknown";
  if ("code" in fault && typeof fault.code === "string") return fault.code;
  return fault instanceof Error ? fault.name : "unknown";
}
