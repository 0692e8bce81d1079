/**
 * The network between clients and bus. A request, an answer and a frame are packets, each with a latency of its own: what goes
 * over different connections overtakes each other, the frames of one socket stay in order, as TCP has it. Packets are lost,
 * requests come twice, answers break off, connections are cut, or fall silent with neither end told; a place may be in the
 * dark for a while, and what was under way on its sockets comes when it is over, as TCP sends it again.
 */

import type { Life, Place } from "./life.ts";
import { BUS_HOST, BUS_ORIGIN } from "./platform/variables.ts";
import type { BusSocket } from "./platform/bus-socket.ts";
import { SimRequest, type SimResponse } from "./platform/web.ts";
import type { World } from "./world.ts";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array;
  /** Else it breaks off in the middle. */
  readonly isWhole: boolean;
}

export interface AskEars {
  answered(answer: Answered): void;
  /** @param isReused on a connection that was kept alive and had ended */
  broken(code: string, isReused: boolean): void;
}

export interface DialEars {
  opened(wire: Wire): void;
  refused(status: number, headers: Readonly<Record<string, string>>, bytes: Uint8Array): void;
  broken(code: string): void;
  text(data: string): void;
  closing(code: number, reason: string): void;
  /** The connection beneath it is over. */
  ended(): void;
}

/** Routes that a middlebox may repeat: the rest use up a nonce, and say so. */
const REPEATED = new Set(["/send", "/contacts", "/announce", "/unregister", "/receipts", "/ack"]);

export class Network {
  /** Places from which, and to which, nothing comes through, and until when. */
  readonly #darkUntilMs = new Map<Place, number>();
  readonly #world: World;
  #wires = new Set<Wire>();

  constructor(world: World) {
    this.#world = world;
  }

  get wires(): readonly Wire[] {
    return [...this.#wires];
  }

  darken(place: Place, forMs: number): void {
    this.#darkUntilMs.set(place, this.#world.scheduler.nowMs + forMs);
  }

  lighten(): void {
    this.#darkUntilMs.clear();
  }

  darkUntilMs(place: Place): number {
    const untilMs = this.#darkUntilMs.get(place) ?? 0;
    return untilMs > this.#world.scheduler.nowMs ? untilMs : 0;
  }

  latencyMs(): number {
    const { dice, profile } = this.#world;
    return dice.chance(profile.slow) ? dice.spread(200, 20_000) : dice.spread(0.2, profile.latencyMs);
  }

  ask(life: Life, { method, path, headers, body }: Asked, ears: AskEars): void {
    const { dice, profile, scheduler, bus } = this.#world;
    const { place } = life;
    const [route = ""] = path.split("?");
    const toClient = (what: string, tell: () => void) => {
      if (this.darkUntilMs(place) > 0 || life.isDead) return;
      scheduler.after(this.latencyMs(), `${what} ${route}`, () => this.darkUntilMs(place) > 0 || tell(), life);
    };
    const broken = (code: string) => toClient(code, () => ears.broken(code, false));
    const arrive = (isHeard: boolean) => {
      if (this.darkUntilMs(place) > 0) return;
      if (!bus.isUp) return isHeard ? broken("ECONNREFUSED") : undefined;
      bus.life.effect(`${method} ${route} of ${life.name}`);
      const request = new SimRequest(`${BUS_ORIGIN}${path}`, {
        method,
        headers: { ...headers, host: BUS_HOST },
        ...(body && { body }),
      });
      const answer = (response: SimResponse) => {
        if (!isHeard) return;
        if (dice.chance(profile.loseAnswer)) return dice.chance(0.5) ? broken("ECONNRESET") : undefined;
        const isWhole = !dice.chance(profile.breakAnswer);
        const answered = { status: response.status, headers: plain(response.headers), bytes: response.bytes, isWhole };
        toClient(`${response.status}`, () => ears.answered(answered));
      };
      bus.fetch(request, answer, () => isHeard && broken("ECONNRESET"));
    };
    const send = (isHeard: boolean) =>
      scheduler.after(this.latencyMs(), `packet ${method} ${route} of ${life.name}`, () => arrive(isHeard));

    if (dice.chance(profile.stale)) {
      if (dice.chance(0.3)) send(false); // it came through before the connection ended
      return toClient("stale", () => ears.broken("ECONNRESET", true));
    }
    if (dice.chance(profile.loseRequest)) return dice.chance(0.5) ? broken("ECONNRESET") : undefined;
    send(true);
    if (REPEATED.has(route) && dice.chance(profile.repeatRequest)) send(false);
  }

  dial(life: Life, { path, protocols }: { path: string; protocols: readonly string[] }, ears: DialEars): void {
    const { dice, profile, scheduler, bus } = this.#world;
    const { place } = life;
    const toClient = (what: string, tell: () => void) => {
      if (this.darkUntilMs(place) > 0 || life.isDead) return;
      scheduler.after(this.latencyMs(), what, () => this.darkUntilMs(place) > 0 || tell(), life);
    };
    const broken = (code: string) => toClient(code, () => ears.broken(code));
    if (dice.chance(profile.loseRequest)) return dice.chance(0.5) ? broken("ECONNRESET") : undefined;
    scheduler.after(this.latencyMs(), `handshake of ${life.name}`, () => {
      if (this.darkUntilMs(place) > 0) return;
      if (!bus.isUp) return broken("ECONNREFUSED");
      bus.life.effect(`handshake of ${life.name}`);
      const request = new SimRequest(`${BUS_ORIGIN}${path}`, {
        headers: { host: BUS_HOST, upgrade: "websocket", "sec-websocket-protocol": protocols.join(", ") },
      });
      const answer = (response: SimResponse) => {
        if (!response.webSocket) {
          return toClient(`refused ${response.status}`, () =>
            ears.refused(response.status, plain(response.headers), response.bytes),
          );
        }
        const wire = new Wire(this.#world, life, response.webSocket, ears);
        this.#wires.add(wire);
        wire.onEnd = () => this.#wires.delete(wire);
        // A client that hears nothing of it dials anew; the bus's end stays open until then.
        if (dice.chance(profile.loseAnswer)) wire.fallSilent();
        wire.open();
      };
      bus.fetch(request, answer, () => broken("ECONNRESET"));
    });
  }
}

/** One socket's connection, from a client to the bus's end of it. */
export class Wire {
  /** As line.ts asks of the system's socket: whether anything stirs. */
  bytesRead = 0;
  readonly life: Life;
  onEnd: () => void = () => {};
  readonly #world: World;
  readonly #theirs: BusSocket;
  readonly #ears: DialEars;
  /** When the latest packet each way arrives: none overtakes it. */
  #upAtMs = 0;
  #downAtMs = 0;
  /** Nothing comes through any more, and nobody is told. */
  #isSilent = false;
  #isOver = false;

  constructor(world: World, life: Life, theirs: BusSocket, ears: DialEars) {
    this.#world = world;
    this.life = life;
    this.#theirs = theirs;
    this.#ears = ears;
    // The system ends what a dead process had open, even while its machine goes on.
    life.onDeath(() => this.reset());
  }

  open(): void {
    this.#down("socket", 0, () => this.#ears.opened(this));
    this.#theirs.take({
      text: (data) => {
        this.#world.onFrame(this, data);
        this.#down(`frame ${data.slice(0, data.startsWith(`{"t":"err"`) ? 45 : 14)}`, data.length, () =>
          this.#ears.text(data),
        );
      },
      closed: (code, reason, isClean) =>
        isClean
          ? this.#down(`closing ${code}`, 4, () => this.#ears.closing(code, reason))
          : this.#down("reset", 0, () => this.#over()),
    });
  }

  send(data: string): void {
    this.#up(`packet ${data.slice(0, 14)} of ${this.life.name}`, () => this.#theirs.peer.hear(data));
  }

  close(code: number): void {
    this.#up(`packet closing of ${this.life.name}`, () => this.#theirs.peer.hearClose(code, "", true));
  }

  /** By the client's end. */
  reset(): void {
    if (this.#isOver) return;
    this.#up(`packet reset of ${this.life.name}`, () => this.#theirs.peer.hearClose(1006, "", false));
    this.#isOver = true;
    this.onEnd();
  }

  /** By something between the two: both ends see it break. */
  cut(): void {
    if (this.#isOver) return;
    this.#up(`packet cut of ${this.life.name}`, () => this.#theirs.peer.hearClose(1006, "", false));
    this.#down("cut", 0, () => this.#over());
  }

  fallSilent(): void {
    this.#isSilent = true;
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.onEnd();
    this.#ears.ended();
  }

  #up(what: string, arrive: () => void): void {
    if (this.#isOver || this.#isSilent) return;
    const { scheduler, bus, network } = this.#world;
    const life = bus.life;
    this.#upAtMs = Math.max(this.#upAtMs, scheduler.nowMs + network.latencyMs());
    const come = () => {
      if (this.#isSilent) return;
      const darkUntilMs = network.darkUntilMs(this.life.place);
      if (darkUntilMs > 0) {
        this.#upAtMs = Math.max(this.#upAtMs, darkUntilMs + network.latencyMs());
        scheduler.after(this.#upAtMs - scheduler.nowMs, what, come, life);
      } else arrive();
    };
    scheduler.after(this.#upAtMs - scheduler.nowMs, what, come, life);
  }

  #down(what: string, bytes: number, arrive: () => void): void {
    if (this.#isOver || this.#isSilent) return;
    const { scheduler, network } = this.#world;
    this.#downAtMs = Math.max(this.#downAtMs, scheduler.nowMs + network.latencyMs());
    const come = () => {
      if (this.#isSilent || this.#isOver) return;
      const darkUntilMs = network.darkUntilMs(this.life.place);
      if (darkUntilMs > 0) {
        this.#downAtMs = Math.max(this.#downAtMs, darkUntilMs + network.latencyMs());
        scheduler.after(this.#downAtMs - scheduler.nowMs, what, come, this.life);
        return;
      }
      this.bytesRead += bytes;
      arrive();
    };
    scheduler.after(this.#downAtMs - scheduler.nowMs, what, come, this.life);
  }
}

function plain(headers: Headers): Readonly<Record<string, string>> {
  return Object.fromEntries(headers);
}
