/** What the supervisor remembers of the calls that passed, for the next process. */

import { isRecord, type Request } from "./frame.ts";

/** Far more than the mail of one answer, or the threads of one host. */
const IDS_MAX = 64;
/** A longer one is no id. */
const ID_MAX_CHARS = 256;

export class Remembered {
  /** Messages in answers that came out whole. */
  arrived: readonly string[] = [];
  /** Threads by which the host called. */
  threads: readonly string[] = [];
  /** A tool was called. */
  hasCalled = false;

  called({ method, params }: Request): void {
    if (method !== "tools/call") return;
    this.hasCalled = true;
    const thread = isRecord(params["_meta"]) ? params["_meta"]["threadId"] : undefined;
    if (typeof thread !== "string" || thread.length > ID_MAX_CHARS || this.threads.includes(thread)) return;
    this.threads = [...this.threads, thread].slice(-IDS_MAX);
  }

  took(ids: readonly string[]): void {
    if (ids.length > 0) this.arrived = [...this.arrived, ...ids].slice(-IDS_MAX);
  }
}
