/**
 * The agent, opened when it is first needed. A process that is started only to be looked at opens no file and takes no
 * lock, so that a host's probe does not stand in the way of the process that follows it.
 */

import type { BusAgent } from "../session/buses.ts";
import type { Failure } from "./render-refusal.ts";

/** Opens the agent, or says why it cannot be. */
export type Open = () => Promise<BusAgent | Failure>;

export class Opening {
  readonly #open: Open;
  readonly #onOpened: (agent: BusAgent) => void;
  #opening: Promise<BusAgent | Failure> | undefined;
  #agent: BusAgent | undefined;
  #isReal = false;
  #isClosed = false;

  /** @param onOpened called with each, before anybody has the agent */
  constructor(open: Open, onOpened: (agent: BusAgent) => void) {
    this.#open = open;
    this.#onOpened = onOpened;
  }

  /** The process is ending: what is under way comes to nobody. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The agent. One attempt at a time; a failed one is made again by the next who asks, for its cause may be gone. */
  agent(): Promise<BusAgent | Failure> {
    this.#opening ??= this.#attempt();
    return this.#opening;
  }

  /** The session is real: it is announced as soon as there is an agent. */
  async begin(): Promise<void> {
    this.#isReal = true;
    if (this.#agent) this.#agent.begin();
    else await this.agent();
  }

  /** The session is another one now: the agent says goodbye, at most this long, and another is opened. */
  move(withinMs: number): void {
    const before = this.#opening;
    if (!before) return;
    this.#agent = undefined;
    const closed = before.then((agent) => (isFailure(agent) ? undefined : agent.close(withinMs)));
    // A goodbye that fails holds nobody up.
    this.#opening = closed.catch(() => undefined).then(() => this.#attempt());
    // Whoever asks next sees why it failed.
    this.#opening.catch(() => {});
  }

  /** Says goodbye, where there is anything to say it; at most this long. What is still opening is closed when it is open. */
  async close(withinMs: number): Promise<void> {
    this.#isClosed = true;
    await this.#agent?.close(withinMs);
  }

  async #attempt(): Promise<BusAgent | Failure> {
    try {
      const agent = await this.#open();
      if (isFailure(agent)) {
        this.#opening = undefined;
        return agent;
      }
      this.#agent = agent;
      this.#onOpened(agent);
      if (this.#isClosed) await agent.close(0);
      else if (this.#isReal) agent.begin();
      return agent;
    } catch (fault) {
      this.#opening = undefined;
      throw fault;
    }
  }
}

/** Tells a failure from an agent. */
export function isFailure(outcome: object): outcome is Failure {
  return "code" in outcome && "message" in outcome;
}
