/**
 * What the platform bears. Prices are in prices.json; nothing here was tried on Cloudflare's network.
 *
 * Documented ones are of late 2026, at developers.cloudflare.com/durable-objects: platform/limits,
 * best-practices/rules-of-durable-objects, observability/troubleshooting, deployments/durable-objects-code-updates.
 */

export const PLATFORM = {
  /** Documented as a soft limit: requests a second of one object that only reads or passes on. */
  object_reads_per_s: 1_000,
  /** Documented as 200 to 500 with storage writes; the upper end, since writes that arrive together share a commit here. */
  object_writes_per_s: 500,
  /** Documented: an object that is awake may keep its old code so long; then it is reset. */
  update_delay_max_ms: 300_000,
  /** Documented: a few times a week the platform updates its own runtime, which closes sockets as a deployment does. */
  updates_a_month: 12,
  /** Documented: an object may sleep after so long without an event. */
  sleeps_after_ms: 10_000,
} as const;

/** What could be neither counted nor looked up. */
export const ASSUMED = {
  /** "Requests queued for too long" is documented as a refusal, from when it comes is not. Below a dial's 15 s. */
  queue_max_ms: 10_000,
  /** From a client to the Worker, and back. */
  network_ms: 40,
  /** An object that slept reads its tables and takes the handshake. */
  handshake_ms: 30,
  /** A Worker's call of an object and back, where it need not wait. */
  object_call_ms: 10,
} as const;

/** Measured by `npm run bench:object`: CPU of a 2.8 GHz core. */
export const MEASURED = {
  /** Of a send, what its object takes: all of it, less the same request refused by the door. */
  object_send_us: 390,
  /** Of a question whether a key is admitted, the door's part included. */
  admission_us: 300,
} as const;

/** What one object is taken to bear: the documented, unless it was measured to be less. */
export const CAPACITY = {
  reads_per_s: Math.min(PLATFORM.object_reads_per_s, 1e6 / MEASURED.admission_us),
  writes_per_s: Math.min(PLATFORM.object_writes_per_s, 1e6 / MEASURED.object_send_us),
} as const;
