/**
 * Reading mail: what a call takes is marked read in the step that takes it, and counts as arrived when another call follows,
 * for only then is it known that the answer came out.
 */

import type { Timers } from "../bus/timers.ts";
import type { InboxMessage } from "../state/inbox.ts";
import type { State } from "../state/store.ts";
import type { Addressing } from "./addressing.ts";
import { isToolRefusal, type Agent, type Shown } from "./agent.ts";
import { oneOf } from "./correspondence.ts";
import type { Guard } from "./guard.ts";
import { beginningOf, partOf, shownOf } from "./showing.ts";
import { forgetUntold } from "./untold.ts";
import type { Wakes } from "./wakes.ts";

export interface MailboxOptions {
  readonly state: State;
  readonly addressing: Addressing;
  readonly guard: Pick<Guard, "noteReading">;
  readonly wakes: Pick<Wakes, "looked">;
  readonly timers: Timers;
}

export class Mailbox {
  readonly #options: MailboxOptions;
  /** Taken by a call whose answer was not followed by another call yet. */
  #handed: number[] = [];
  /** The answer that is on its way tells how many an earlier process took in vain. */
  #tellsOfUntold = false;

  constructor(options: MailboxOptions) {
    this.#options = options;
  }

  check({ max, maxBytes }: { max: number; maxBytes: number }): Awaited<ReturnType<Agent["checkMessages"]>> {
    const { state, guard, wakes, timers } = this.#options;
    this.confirmHanded();
    const { messages, left } = state.transaction(() => {
      const taken = state.inbox.takeUnread({ max, maxBytes }, timers.now());
      if (taken.messages.length > 0) guard.noteReading();
      return taken;
    });
    wakes.looked();
    this.#handed = messages.map(({ seq }) => seq);
    // Only one that is alone may be larger than what there is room for; the rest of it is read in parts.
    return { messages: messages.map((message) => this.#show(message, beginningOf(message.text, maxBytes))), left };
  }

  read(msgId: string, offset: number): Awaited<ReturnType<Agent["readMessage"]>> {
    const { state, guard, wakes, timers } = this.#options;
    this.confirmHanded();
    const found = oneOf(msgId, state.inbox.find(msgId));
    if (isToolRefusal(found)) return found;
    const message = state.transaction(() => {
      guard.noteReading();
      return state.inbox.takeOne(found.seq, timers.now()) ?? found;
    });
    wakes.looked();
    if (found.read_at_ms === undefined) this.#handed = [found.seq];
    const part = partOf(message.text, offset);
    const { next_offset } = part;
    return { ...this.#show(message, part), ...(next_offset !== undefined && { next_offset }) };
  }

  /** A further call says that the answer to the one before has arrived. */
  confirmHanded(): void {
    if (this.#handed.length > 0) this.#options.state.inbox.confirmHanded(this.#handed);
    this.#handed = [];
    if (this.#tellsOfUntold) forgetUntold(this.#options.state.meta);
    this.#tellsOfUntold = false;
  }

  /** An answer is made that tells of them; they are told when another call follows. */
  tellsOfUntold(): void {
    this.#tellsOfUntold = true;
  }

  #show(message: InboxMessage, part: ReturnType<typeof partOf>): Shown {
    return shownOf(message, this.#options.addressing.ref(message.from), part);
  }
}
