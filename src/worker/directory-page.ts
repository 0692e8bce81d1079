/** Walking through the identities of a bus, a page at a time, over all shards of the directory. */

import { parseKey, type Key } from "../protocol/address.ts";
import { PAGE_DEFAULT, PAGE_MAX } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { shardOf } from "../durable/directory-shards.ts";
import { logFault } from "../durable/log.ts";
import { askDirectory } from "./ask.ts";
import { wholeOf } from "./query.ts";
import type { Call } from "./route.ts";

/** Identities asked at a time: the platform may cancel a seventh connection. */
const ASKED_AT_A_TIME = 6;

/** Which page is asked for. */
export interface Page {
  readonly limit: number;
  readonly shard: number;
  readonly after?: Key;
}

/** Reads `limit` and `cursor`: the cursor is the last key of the page before, and its shard follows from it. */
export function parsePage({ query, settings, caller }: Pick<Call, "query" | "settings" | "caller">): Page | Refusal {
  // The original knows no pages: whom the first does not show, it cannot write to.
  const limit = wholeOf(query, "limit", 1, PAGE_MAX, caller ? PAGE_DEFAULT : PAGE_MAX);
  if (isRefusal(limit)) return limit;
  const [cursor] = query.get("cursor") ?? [];
  if (cursor === undefined) return { limit, shard: 0 };
  const after = parseKey(cursor);
  return after ? { limit, shard: shardOf(after, settings.directoryShards), after } : refuse("bad_query");
}

/** What a page holds. */
export interface PageOfKeys {
  readonly keys: Key[];
  /** Where the next begins; absent where there is none. */
  readonly cursor?: Key;
  /** A shard that the page is from lists as many as it may, so some that have an object may not be among them. */
  readonly isFull?: true;
}

/**
 * The keys of a page, those that show themselves or all that have an object, and the cursor of the next.
 * A page may be the last and full: the next is then empty.
 */
export async function pageOfKeys(
  { env, settings }: Pick<Call, "env" | "settings">,
  page: Page,
  isShown: boolean,
): Promise<PageOfKeys | Refusal> {
  const keys: Key[] = [];
  let full: Pick<PageOfKeys, "isFull"> = {};
  let { after } = page;
  for (let shard = page.shard; shard < settings.directoryShards; shard++) {
    const limit = page.limit - keys.length;
    const call = { limit, isShown, ...(after === undefined ? {} : { after }) };
    const found = await askDirectory(env, shard, "page", call);
    if (isRefusal(found)) return found;
    keys.push(...found.keys);
    if (found.isFull) full = { isFull: true };
    after = undefined;
    if (keys.length >= page.limit) return { keys, cursor: keys.at(-1)!, ...full };
  }
  return { keys, ...full };
}

/** What the identities of a page answered, and how many of them did not: said in the answer, not left out in silence. */
export interface Asked<Answer> {
  readonly answers: Answer[];
  readonly unanswered: { readonly unanswered?: number };
}

/** Asks each identity of a page. One that refuses or has a fault spoils no one else's. */
export async function askEach<Answer extends object>(
  keys: readonly Key[],
  ask: (key: Key) => Promise<Answer | Refusal>,
): Promise<Asked<Answer>> {
  const answers: Answer[] = [];
  for (let i = 0; i < keys.length; i += ASKED_AT_A_TIME) {
    for (const settled of await Promise.allSettled(keys.slice(i, i + ASKED_AT_A_TIME).map(ask))) {
      if (settled.status === "rejected") logFault("page_fault", settled.reason);
      else if (!isRefusal(settled.value)) answers.push(settled.value);
    }
  }
  const missing = keys.length - answers.length;
  return { answers, unanswered: missing > 0 ? { unanswered: missing } : {} };
}
