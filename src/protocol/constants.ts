/**
 * Every number and literal that both ends must agree on, with its unit and reason.
 *
 * The limits are defaults: each may be replaced by a Worker variable of the same name
 * (`npm start -- --var LIVE_MS:2000`), so that tests shorten time instead of waiting for it.
 */

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

// ---- Fixed by the wire: changing one of these is a new protocol version -----------------------

/** Domain tags of the signed bytes; the zero byte keeps any tag from being a prefix of another. */
export const MESSAGE_DOMAIN = "interlink-v2\0";
export const ANNOUNCE_DOMAIN = "interlink-announce-v1\0";
export const UNREGISTER_DOMAIN = "interlink-unregister-v1\0";
export const TOKEN_DOMAIN = "interlink-auth-v1\0";
export const WAKE_DOMAIN = "interlink-wake-v1\0";

/** First part of a request token, and its version. */
export const TOKEN_PREFIX = "il1";
/** Scheme word of the `Authorization` header. */
export const AUTH_SCHEME = "Interlink";

/** Depth of JSON that is parsed at all; our deepest legal body has 5 levels. */
export const JSON_DEPTH_MAX = 16;
/** Bytes of a request target (path and query); our longest legal one is near 400. */
export const TARGET_MAX_BYTES = 2_048;

export const NAME_MAX_BYTES = 64;
export const SUMMARY_MAX_BYTES = 280;
export const CWD_MAX_BYTES = 512;
export const GIT_ROOT_MAX_BYTES = 128;
export const TASK_ID_MAX_BYTES = 128;

/** Entries of one request. */
export const BATCH_MAX = 64;
export const CONTACTS_MAX = 1_024;
export const RECEIPTS_MAX = 256;

/**
 * Longest that a wake which was answered may be said of a session: a path that woke within the hour is likely to again;
 * longer ago, its host may have changed meanwhile, and whoever captured the lease could say it for as long.
 */
export const WAKE_LEASE_MAX_MS = HOUR;

/** Longest life of an invite. */
export const INVITE_MAX_MS = DAY;

/** Longest a poll is held: below the idle timeouts of common proxies. */
export const POLL_MAX_MS = 30_000;
/** What a poll without `timeout_ms` waits, as the original bus does. */
export const POLL_DEFAULT_MS = 25_000;

/** Identities on a page of the whole-bus roster. */
export const PAGE_DEFAULT = 50;
export const PAGE_MAX = 200;

// ---- Limits of a bus: defaults of the variables of the same name ------------------------------

export const DEFAULT_LIMITS = {
  /** A client's ping or re-announcement. */
  HEARTBEAT_MS: 30 * SECOND,
  /** Younger than this is live: three heartbeats, so that two may be lost. */
  LIVE_MS: 90 * SECOND,
  /** Away at least this long reads as "probably gone"; wording only. */
  AWAY_STALE_MS: DAY,
  /** Silent this long is gone: a laptop closed over a long weekend still finds its mail. */
  AWAY_RETAIN_MS: 3 * DAY,
  /** Unacked mail older than this expires, with a receipt. */
  MESSAGE_RETAIN_MS: 14 * DAY,
  /** An acked id is remembered this long; above MESSAGE_RETAIN_MS, past which no retry is accepted. */
  DEDUPE_RETAIN_MS: 15 * DAY,
  /** A knock that nobody answered is dropped. */
  KNOCK_RETAIN_MS: DAY,
  /** An identity with nothing to keep is deleted after this. */
  GHOST_RETAIN_MS: DAY,
  INBOX_MAX_MESSAGES: 1_024,
  INBOX_MAX_BYTES: 8 * 1_048_576,
  /** Messages that one sender may hold in one inbox, so that one contact cannot shut out another. */
  SENDER_SHARE: 256,
  /** Inboxes of an identity that may hold mail at a time; bounds mail to sessions nobody knows. */
  INBOXES_MAX: 128,
  SESSIONS_MAX: 64,
  KNOCKS_MAX: 16,
  /** Identities that one directory shard lists: a page of the whole-bus roster reads each hidden one on its way. */
  LISTED_MAX: 10_000,
  TEXT_MAX_BYTES: 65_536,
  BODY_MAX_BYTES: 131_072,
  /** A socket this old is asked to sign again: whoever captured its session must not hold it for ever. */
  SOCKET_MAX_MS: DAY,
  /**
   * Calls, frames and messages a second that one key may ask of one identity, with ten seconds' worth at
   * once: an object's memory lasts that long, so a bucket forgotten with it had refilled.
   */
  RATE_PER_S: 100,
  /** How far a signer's clock may be off. */
  CLOCK_SKEW_MS: 60 * SECOND,
} as const;

/** The limits of one running bus; all whole numbers, durations in milliseconds. */
export type Limits = { readonly [Name in keyof typeof DEFAULT_LIMITS]: number };
