/**
 * How much each inbox holds: counted once per instance, then kept beside the table. A count per send
 * would read the whole inbox each time. Only a cache: whatever is not known is counted anew.
 */

import type { Inbox, Tally } from "./inbox-policy.ts";
import type { Sql } from "./meter.ts";

interface MutableTally extends Tally {
  messages: number;
  bytes: number;
  readonly bySender: Map<string, number>;
}

export class InboxTallies {
  readonly #sql: Sql;
  readonly #tallies = new Map<Inbox, MutableTally>();
  #inUse: number | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(inbox: Inbox): Tally {
    return this.#of(inbox);
  }

  /** True where asking the table would find nothing; false may mean that nobody counted yet. */
  isKnownEmpty(inbox: Inbox): boolean {
    return this.#tallies.get(inbox)?.messages === 0;
  }

  /** How many inboxes hold something. */
  inUse(): number {
    this.#inUse ??= this.scan().inUse;
    return this.#inUse;
  }

  /** Inboxes in use and the largest number in them: steps from inbox to inbox by the key, past their rows. */
  scan(): { inUse: number; lastSeq: number } {
    const row = this.#sql
      .exec<{ n: number; last: number | null }>(
        `WITH RECURSIVE used(inbox) AS (
           SELECT min(inbox) FROM message
           UNION ALL
           SELECT (SELECT min(inbox) FROM message WHERE inbox > used.inbox) FROM used WHERE used.inbox IS NOT NULL
         )
         SELECT count(inbox) AS n, max((SELECT max(seq) FROM message WHERE message.inbox = used.inbox)) AS last
         FROM used WHERE inbox IS NOT NULL`,
      )
      .one();
    return { inUse: row.n, lastSeq: row.last ?? 0 };
  }

  /** A row was just inserted. */
  entered(inbox: Inbox, sender: string, bytes: number): void {
    const tally = this.#tallies.get(inbox);
    if (!tally) return this.forget();
    if (tally.messages === 0 && this.#inUse !== undefined) this.#inUse++;
    tally.messages++;
    tally.bytes += bytes;
    tally.bySender.set(sender, (tally.bySender.get(sender) ?? 0) + 1);
  }

  /** A row was just deleted. */
  left(inbox: Inbox, sender: string, bytes: number): void {
    const tally = this.#tallies.get(inbox);
    if (!tally) return this.forget();
    const ofSender = (tally.bySender.get(sender) ?? 0) - 1;
    if (ofSender > 0) tally.bySender.set(sender, ofSender);
    else tally.bySender.delete(sender);
    tally.bytes -= bytes;
    if (--tally.messages > 0) return;
    this.#tallies.delete(inbox); // names of inboxes come from senders: an empty one is not worth remembering
    if (this.#inUse !== undefined) this.#inUse--;
  }

  forget(): void {
    this.#tallies.clear();
    this.#inUse = undefined;
  }

  #of(inbox: Inbox): MutableTally {
    const known = this.#tallies.get(inbox);
    if (known) return known;
    const tally: MutableTally = { messages: 0, bytes: 0, bySender: new Map() };
    const cursor = this.#sql.exec<{ sender: string; messages: number; bytes: number }>(
      "SELECT sender, count(*) AS messages, sum(bytes) AS bytes FROM message WHERE inbox = ? GROUP BY sender",
      inbox,
    );
    for (const row of cursor) {
      tally.messages += row.messages;
      tally.bytes += row.bytes;
      tally.bySender.set(row.sender, row.messages);
    }
    this.#tallies.set(inbox, tally);
    return tally;
  }
}
