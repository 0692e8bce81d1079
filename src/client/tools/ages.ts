/** PURE. Durations in words: one unit, rounded down, since an age that is told is never to be older than it is. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `45s`, `20m`, `3h`, `2 days`. What is negative (a clock that went back) is none. */
export function durationOf(ms: number): string {
  const whole = Math.max(0, ms);
  if (whole < MINUTE) return `${Math.floor(whole / SECOND)}s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)}m`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)}h`;
  const days = Math.floor(whole / DAY);
  return days === 1 ? "1 day" : `${days} days`;
}

/** `20m ago`; under a second it is `just now`. */
export function ageOf(ms: number): string {
  return ms < SECOND ? "just now" : `${durationOf(ms)} ago`;
}
