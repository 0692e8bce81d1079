/** What is open to an identity's sessions: sockets and parked polls, asked one session at a time. */

import type { SessionId } from "../protocol/address.ts";
import type { Limits } from "../protocol/constants.ts";
import type { Open } from "./identity-storage.ts";
import type { PollHub } from "./poll-hub.ts";
import type { Connections } from "./presence-desk.ts";
import type { SocketHub } from "./socket-hub.ts";

export class OpenConnections implements Connections, Open {
  readonly #sockets: SocketHub;
  readonly #polls: PollHub;

  constructor(sockets: SocketHub, polls: PollHub) {
    this.#sockets = sockets;
    this.#polls = polls;
  }

  hasSocket(session: SessionId): boolean {
    return this.#sockets.of(session) !== undefined;
  }

  signOfLifeMs(session: SessionId): number | undefined {
    return this.#sockets.of(session)?.signOfLifeMs ?? this.#polls.of(session)?.sinceMs;
  }

  pushedThrough(): number {
    return Math.max(0, ...this.#sockets.all().map((socket) => socket.facts.pushedThrough));
  }

  /**
   * The session that has been connected longest: the one that mail to the bare key goes to. One that was not
   * heard for LIVE_MS may have nobody at its other end, so it is first only where no other is.
   */
  first(nowMs: number, { LIVE_MS }: Pick<Limits, "LIVE_MS">): SessionId | undefined {
    const sockets = this.#sockets.all();
    const heard = sockets.find((socket) => nowMs - socket.signOfLifeMs < LIVE_MS);
    return heard?.facts.session ?? this.#polls.all()[0]?.session ?? sockets[0]?.facts.session;
  }
}
