/** PURE: what readings over time come to. */

export interface Reading {
  readonly atMs: number;
  readonly value: number;
}

/** How much the value grows in a millisecond, by least squares. */
export function slopeOf(readings: readonly Reading[]): number {
  const meanOf = (of: (reading: Reading) => number) =>
    readings.reduce((sum, each) => sum + of(each), 0) / readings.length;
  const [meanAt, meanValue] = [meanOf(({ atMs }) => atMs), meanOf(({ value }) => value)];
  const spread = readings.reduce((sum, { atMs }) => sum + (atMs - meanAt) ** 2, 0);
  if (spread === 0) return 0;
  return readings.reduce((sum, { atMs, value }) => sum + (atMs - meanAt) * (value - meanValue), 0) / spread;
}

export function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
