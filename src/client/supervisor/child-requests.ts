/** Requests of the process to the host (a question to the operator): under ids that no other process has, so that a late answer finds nobody. */

import { keyOf, type Id } from "./frame.ts";

export class ChildRequests {
  /** The host's id → the process's own. */
  readonly #open = new Map<Id, Id>();
  #count = 0;

  /** @returns the id under which the host is asked */
  ask(own: Id): Id {
    const id = `agent-${++this.#count}`;
    this.#open.set(id, own);
    return id;
  }

  /** The host answers. @returns the process's own id, or undefined: the one who asked is gone */
  answered(id: Id): Id | undefined {
    const own = this.#open.get(id);
    this.#open.delete(id);
    return own;
  }

  /** The process withdraws a question. @returns the host's id of it */
  withdrawn(own: Id): Id | undefined {
    const found = [...this.#open].find(([, each]) => keyOf(each) === keyOf(own));
    if (found) this.#open.delete(found[0]);
    return found?.[0];
  }

  /** The process died. @returns what the host need not answer any more */
  died(): Id[] {
    const open = [...this.#open.keys()];
    this.#open.clear();
    return open;
  }
}
