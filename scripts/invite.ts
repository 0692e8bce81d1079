/**
 * `npm run invite`: what an operator does with an admin key. It makes the key, invites with it and reads counters.
 *
 * What a program would read on goes to stdout (a public key, an invite, counters); the sentences go to stderr. The
 * one secret that is ever printed is the invite, which is for somebody else.
 */

import { randomBytes } from "node:crypto";
import { open } from "node:fs/promises";
import { parseArgs } from "node:util";
import type { Counters } from "../src/durable/meter.ts";
import { decodeBase64url, encodeBase64url } from "../src/protocol/base64url.ts";
import { AUTH_SCHEME, INVITE_MAX_MS } from "../src/protocol/constants.ts";
import { publicKeyOf, sign } from "../src/protocol/signing.ts";
import { escapeInvisible } from "../src/protocol/text.ts";
import { formatToken, signedTokenBytes, type SignedRequest } from "../src/protocol/token.ts";

const USAGE = `npm run invite -- --new-key FILE                     makes an admin key, prints its public key
npm run invite -- --key FILE                         prints the public key again
npm run invite -- --key FILE --url URL [--ttl 24h]   prints an invite, good for one key
npm run invite -- --key FILE --url URL --stats       prints the counters of the bus`;

const SEED_BYTES = 32;
const ANSWER_MAX_MS = 30_000;
/** Identities on a page of counters: with the directory's shards below the 50 calls of a request on the free plan. */
const PAGE_IDENTITIES = 32;

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** What an operator can do about a refusal, where the bus's own words leave it open. */
const HINTS: Readonly<Record<string, string>> = {
  bad_signature: "Is the --url one of the origins in the bus's AUDIENCE?",
  not_owner: "Is the key of this file in the bus's ADMIN_KEYS?",
};

/** A bus, and the key that asks it. */
export interface Asker {
  /** The bus's origin, which is also what the token is signed for. */
  readonly url: string;
  /** 32 bytes. */
  readonly seed: Uint8Array;
  /** Clock in Unix milliseconds; the system's if absent. */
  readonly now?: () => number;
}

/** A fault that is told in its own words, without a stack. */
class Complaint extends Error {}

/**
 * One signed request; a clock that is off is mended once by the bus's own time.
 * @returns the answer's JSON
 * @throws with the bus's words, if it refuses
 */
export async function askBus<Answer>(asker: Asker, method: string, target: string, body?: object): Promise<Answer> {
  const bytes = new Uint8Array(Buffer.from(body === undefined ? "" : JSON.stringify(body)));
  const now = asker.now ?? Date.now;
  let answer = await exchange(asker, { method, target, body: bytes }, now());
  const busNowMs = answer.body["now_ms"];
  if (answer.body["error"] === "clock_skew" && Number.isSafeInteger(busNowMs)) {
    answer = await exchange(asker, { method, target, body: bytes }, busNowMs as number);
  }
  if (answer.status < 300) return answer.body as Answer;
  const { error, message } = answer.body;
  const said = `The bus answered ${answer.status} ${error ?? ""}: ${message ?? "nothing that it would say"}`;
  throw new Complaint([escapeInvisible(said), HINTS[String(error)] ?? []].flat().join("\n"));
}

async function exchange(
  { url, seed }: Asker,
  request: SignedRequest,
  ts: number,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const token = { key: await publicKeyOf(seed), ts, nonce: encodeBase64url(randomBytes(16)) };
  const sig = await sign(await signedTokenBytes(token, request, url), seed);
  const headers = { authorization: `${AUTH_SCHEME} ${formatToken({ ...token, sig })}` };
  const response = await fetch(url + request.target, {
    method: request.method,
    redirect: "manual", // a token is for one origin
    signal: AbortSignal.timeout(ANSWER_MAX_MS),
    ...(request.body.length === 0
      ? { headers }
      : { headers: { ...headers, "content-type": "application/json" }, body: request.body }),
  }).catch((fault: Error & { cause?: Error }) => {
    throw new Complaint(`No answer from ${url}: ${fault.cause?.message ?? fault.message}`);
  });
  const body: unknown = await response.json().catch(() => undefined);
  return { status: response.status, body: typeof body === "object" && body !== null ? { ...body } : {} };
}

/** Makes a file that this user alone may read, with a new seed in it. Never over another. */
export async function makeKey(path: string): Promise<Uint8Array> {
  const file = await open(path, "wx", 0o600).catch((fault: NodeJS.ErrnoException) => {
    throw new Complaint(
      fault.code === "EEXIST"
        ? `${path} exists, and a key that is overwritten is lost: name another file.`
        : `${path} cannot be made: ${fault.message}`,
    );
  });
  try {
    const seed = randomBytes(SEED_BYTES);
    await file.writeFile(`${encodeBase64url(seed)}\n`);
    await file.sync();
    return seed;
  } finally {
    await file.close();
  }
}

/** Reads a seed from a file that nobody else may read. */
export async function readKey(path: string): Promise<Uint8Array> {
  const file = await open(path, "r").catch((fault: Error) => {
    throw new Complaint(`${path} cannot be read: ${fault.message}`);
  });
  try {
    const { mode } = await file.stat();
    if (process.platform !== "win32" && (mode & 0o077) !== 0) {
      throw new Complaint(`${path} can be read by others, so its key may be known: chmod 600 it, or make a new key.`);
    }
    const seed = decodeBase64url((await file.readFile("utf8")).trim(), SEED_BYTES);
    if (!seed) throw new Complaint(`${path} holds no key: it takes one line of 43 base64url characters.`);
    return seed;
  } finally {
    await file.close();
  }
}

/** An answer of GET /stats. */
interface StatsPage {
  readonly identities: number;
  readonly sessions_live: number;
  readonly sessions_away: number;
  readonly queued: number;
  readonly oldest_unacked_ms: number;
  readonly isolate: Counters;
  readonly now_ms: number;
  /** Some identities are not counted: see LISTED_MAX. */
  readonly directory_full?: true;
  readonly cursor?: string;
}

/** The counters of all pages as one. `isolate` is of the last: those of a deployment cannot be added up. */
async function readStats(asker: Asker): Promise<Omit<StatsPage, "cursor">> {
  let sum: Omit<StatsPage, "cursor"> | undefined;
  for (let cursor: string | undefined = ""; cursor !== undefined;) {
    const target: string = `/stats?limit=${PAGE_IDENTITIES}${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const { cursor: next, ...page }: StatsPage = await askBus<StatsPage>(asker, "GET", target);
    sum = sum
      ? {
          ...page,
          identities: sum.identities + page.identities,
          sessions_live: sum.sessions_live + page.sessions_live,
          sessions_away: sum.sessions_away + page.sessions_away,
          queued: sum.queued + page.queued,
          oldest_unacked_ms: Math.max(sum.oldest_unacked_ms, page.oldest_unacked_ms),
          ...(sum.directory_full ? { directory_full: true } : {}),
        }
      : page;
    cursor = next;
  }
  return sum!;
}

async function invite(asker: Asker, ttl: string): Promise<void> {
  const ttl_ms = parseTtl(ttl);
  const { token, expires_at_ms } = await askBus<{ token: string; expires_at_ms: number }>(asker, "POST", "/invite", {
    ttl_ms,
  });
  console.log(token);
  console.error(`Good for one key, until ${new Date(expires_at_ms).toISOString()}. Whoever has it may use it.`);
}

function parseTtl(text: string): number {
  const [, count, unit = ""] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const ms = Number(count) * (UNIT_MS[unit] ?? NaN);
  if (ms >= 1 && ms <= INVITE_MAX_MS) return ms;
  throw new Complaint(
    `--ttl takes a time like 90m or 24h, at most ${INVITE_MAX_MS / UNIT_MS["h"]!}h, and is "${text}".`,
  );
}

/** The origin of a bus, without a path. */
function parseOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || url.pathname !== "/" || url.search !== "" || url.hash !== "" || url.username !== "") {
    throw new Complaint(`--url takes the bus's origin, like https://bus.example, and is "${text}".`);
  }
  const isNear = /^(localhost|\[::1\]|127(\.\d+){3})$/.test(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isNear)) {
    throw new Complaint(`--url is "${text}": an invite would cross the network in the clear; use https.`);
  }
  return url.origin;
}

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      "new-key": { type: "string" },
      key: { type: "string" },
      url: { type: "string" },
      ttl: { type: "string", default: "24h" },
      stats: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  if (values["new-key"] !== undefined) {
    console.log(await publicKeyOf(await makeKey(values["new-key"])));
    console.error(`The key is in ${values["new-key"]}. The line above goes into the bus's ADMIN_KEYS.`);
    return;
  }
  if (values.key === undefined) throw new Complaint(USAGE);
  const seed = await readKey(values.key);
  if (values.url === undefined) return console.log(await publicKeyOf(seed));
  const asker = { url: parseOrigin(values.url), seed };
  if (values.stats) console.log(JSON.stringify(await readStats(asker), null, 2));
  else await invite(asker, values.ttl);
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (fault) {
    const isOurs = fault instanceof Complaint || (fault as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
    console.error(isOurs ? (fault as Error).message : fault);
    process.exitCode = 1;
  }
}
