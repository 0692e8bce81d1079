/** PURE: when the alarms of many identities ring, by the rule that sets them (expiry.ts). */

import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import { nextWake } from "../../src/durable/expiry.ts";
import type { Random } from "../random.ts";
import { Tally } from "./tally.ts";
import { DAY_MS } from "./day.ts";

export interface Ringing {
  readonly identities: number;
  /** In the busiest minute. */
  readonly peakPerS: number;
  /** Where they were spread over the day. */
  readonly spreadPerS: number;
}

/** A day on which each of `walked` identities has connected once, at any time: its alarm is for its nonce. */
export function dailySweep(identities: number, walked: number, random: Random): Ringing {
  return ringing(identities, walked, () =>
    nextWake({ nonceExpiresAtMs: DAY_MS + random() * DAY_MS, hasContacts: true }, DEFAULT_LIMITS, random()),
  );
}

/** Identities that were last heard at any time of a day of `hours` hours, and never again. */
export function threeDaysLater(identities: number, walked: number, hours: number, random: Random): Ringing {
  return ringing(identities, walked, () =>
    nextWake({ seenAtMs: DAY_MS + random() * hours * 3_600_000, hasContacts: true }, DEFAULT_LIMITS, random()),
  );
}

function ringing(identities: number, walked: number, wake: () => number | undefined): Ringing {
  const tally = new Tally(60_000); // a sample is too thin for seconds
  for (let one = 0; one < walked; one++) tally.add(wake()!, identities / walked);
  return { identities, peakPerS: tally.peak / 60, spreadPerS: identities / (DAY_MS / 1_000) };
}
