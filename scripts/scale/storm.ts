/**
 * PURE: all sockets of a bus are cut at once, as by a deployment, and every client dials again by its own rules: its
 * steps are those of connection-state.ts, its pauses those of backoff.ts.
 *
 * A dial asks the Worker, which asks the key's directory shard whether the key is admitted, and then the identity's own
 * object. Only the shard has many to serve, and all shards are alike, so one is simulated. Where it has more clients than
 * can be walked one by one, one in `thinning` is taken, and the shard is slower by as much: what waits how long
 * does not change by that.
 */

import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { CLOSE } from "../../src/protocol/frames.ts";
import { NEW_LINK, step, type Event, type Link } from "../../src/client/bus/connection-state.ts";
import { Agenda } from "./agenda.ts";
import type { Random } from "../random.ts";
import { Station } from "./station.ts";
import { reached, Tally } from "./tally.ts";

export interface StormOptions {
  readonly sessions: number;
  /** 0: nobody is asked whether a key is admitted, as with ADMISSION=open. */
  readonly shards: number;
  readonly shardPerS: number;
  readonly queueMaxMs: number;
  readonly networkMs: number;
  readonly handshakeMs: number;
  /** Over how long the sockets are cut; 0: all at one instant. */
  readonly cutOverMs: number;
  /** What cut them: a deployment, or the bus's word to sign again, after which a client dials at once. */
  readonly by: "deployment" | "sign_again";
  /** Clients that are walked one by one at most. */
  readonly walkedMax: number;
  /** As {@link Storm.backAtMs}: when each is cut, instead of `cutOverMs`. */
  readonly cutAtMs?: readonly number[];
}

export interface Storm {
  readonly thinning: number;
  readonly sessions: number;
  /** Of the whole bus. */
  readonly dials: number;
  readonly dialsPeakPerS: number;
  readonly dialsByS: readonly number[];
  /** Of one shard. */
  readonly shardPeakPerS: number;
  /** Of the whole bus: calls that the shards refused. */
  readonly refused: number;
  readonly halfBackMs: number;
  readonly nearlyAllBackMs: number;
  readonly allBackMs: number;
  /** When each walked client was back. */
  readonly backAtMs: readonly number[];
}

type What =
  | { readonly of: number; readonly epoch: number; readonly on: "event"; readonly event: Event }
  | { readonly of: number; readonly epoch: number; readonly on: "tick" }
  | { readonly of: number; readonly epoch: number; readonly on: "arrives" };

const HOUR_MS = 3_600_000;
/** A client that is not back after so long is a fault of the simulation. */
const GIVE_UP_MS = 24 * HOUR_MS;
const { HEARTBEAT_MS: heartbeatMs } = DEFAULT_LIMITS;

/** A connection that has been open for a while. */
function openLink(): Link {
  const moment = { nowMs: -HOUR_MS, random: 0, heartbeatMs };
  const dialing = step(NEW_LINK, { on: "start" }, moment).link;
  return step(dialing, { on: "welcome", speaksOurs: true }, moment).link;
}

export function simulateStorm(options: StormOptions, random: Random): Storm {
  const { sessions, shards, networkMs, handshakeMs, cutOverMs, by, walkedMax, cutAtMs } = options;
  const ofAShard = shards === 0 ? sessions : sessions / shards;
  const walked = Math.max(1, Math.min(cutAtMs?.length ?? walkedMax, Math.round(ofAShard)));
  const thinning = ofAShard / walked;
  const scale = sessions / walked;
  const station = new Station({ perS: options.shardPerS / thinning, waitMaxMs: options.queueMaxMs });
  const agenda = new Agenda<What>();
  const open = openLink();
  const links = Array.from({ length: walked }, () => open);
  const epochs = Array.from({ length: walked }, () => 0);
  const backAtMs: number[] = [];
  const [dials, calls] = [new Tally(), new Tally()];

  const code = by === "deployment" ? 1006 : CLOSE.signAgain;
  const cut: Event = { on: "closed", code, reason: "" };
  for (let of = 0; of < walked; of++) {
    agenda.put(cutAtMs?.[of] ?? random() * cutOverMs, { of, epoch: 0, on: "event", event: cut });
  }
  const happen = (of: number, event: Event, nowMs: number): void => {
    const { link, actions } = step(links[of]!, event, { nowMs, random: random(), heartbeatMs });
    links[of] = link;
    const epoch = ++epochs[of]!;
    if (actions.includes("dial")) {
      dials.add(nowMs, scale);
      agenda.put(nowMs + networkMs, { of, epoch, on: "arrives" });
    }
    const { state } = link;
    if (state.at === "open") backAtMs.push(nowMs);
    else if ("dueAtMs" in state) agenda.put(state.dueAtMs, { of, epoch, on: "tick" });
    else throw new Error(`a client has stopped: ${state.at}`);
  };
  for (let next = agenda.next(); next; next = agenda.next()) {
    const { atMs, what } = next;
    if (what.on === "arrives") {
      // Also for a client that has given up meanwhile: nobody tells the shard.
      if (shards > 0) calls.add(atMs, thinning);
      const doneAtMs = shards === 0 ? atMs : station.take(atMs);
      const event: Event =
        doneAtMs === undefined ? { on: "failed", why: { unreachable: "fault" } } : { on: "welcome", speaksOurs: true };
      const backMs = doneAtMs === undefined ? atMs + networkMs : doneAtMs + handshakeMs + networkMs;
      agenda.put(backMs, { ...what, on: "event", event });
    } else if (what.epoch === epochs[what.of]) {
      happen(what.of, what.on === "tick" ? { on: "tick", isStirring: false } : what.event, atMs);
    }
    if (atMs > GIVE_UP_MS) throw new Error("the storm does not end");
  }
  const allBackMs = reached(backAtMs, 1);
  return {
    thinning,
    sessions,
    dials: dials.total,
    dialsPeakPerS: dials.peak,
    dialsByS: dials.bins(Math.ceil((allBackMs + 1) / 1_000)),
    shardPeakPerS: calls.peak,
    refused: station.refused * scale,
    halfBackMs: reached(backAtMs, 0.5),
    nearlyAllBackMs: reached(backAtMs, 0.99),
    allBackMs,
    backAtMs,
  };
}
