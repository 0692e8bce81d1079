/** Every system, in the order of the tables; the floor first, since the ratios are against it. */

import type { Adapter } from "../adapter.ts";
import { floor } from "./floor.ts";
import { interlinkHttp, interlinkPoll } from "./interlink-http.ts";
import { interlinkSocket } from "./interlink-socket.ts";
import { interlinkWrangler } from "./interlink-wrangler.ts";
import { nats } from "./nats.ts";
import { redis } from "./redis.ts";

/** The system that ratios are against. */
export const BASELINE = floor.name;

export const ADAPTERS: readonly Adapter[] = [
  floor,
  interlinkSocket,
  interlinkWrangler,
  interlinkHttp,
  interlinkPoll,
  redis,
  nats,
];
