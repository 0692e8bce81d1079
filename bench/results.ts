/** The runs, and what they come to: medians with their range, ratios within one round, marks. */

import type { Reading, Readings } from "./measure.ts";
import { isClientBound, isDisturbed } from "./server/load-watch.ts";
import { median } from "./stats.ts";

/** One measure of one system in one round. */
export interface Run {
  readonly round: number;
  readonly measure: string;
  readonly system: string;
  /** Absent if it failed. */
  readonly readings?: Readings;
  readonly error?: string;
}

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly count: number;
  /** The client was the limit in one of them. */
  readonly clientBound: boolean;
  /** Other work took part of the machine in one of them. */
  readonly disturbed: boolean;
}

/** Calm runs that are enough to leave the disturbed ones out. */
const CALM_ENOUGH = 3;

export class Results {
  readonly runs: Run[] = [];

  add(run: Run): void {
    this.runs.push(run);
  }

  /** What a system's metric came to, or undefined if there is no reading. */
  summary(system: string, metric: string): Summary | undefined {
    return summarize(this.#readings(system, metric));
  }

  /** What the ratios to another system came to, each of two readings of the same round. */
  ratio(system: string, metric: string, other: string, otherMetric = metric): Summary | undefined {
    const others = this.#readings(other, otherMetric);
    return summarize(
      this.#readings(system, metric).flatMap(({ round, reading }) => {
        const base = others.find((one) => one.round === round)?.reading;
        if (!base || base.value === 0) return [];
        // A ratio is disturbed or bound by the client if either of its readings is.
        const loads = [reading.load, base.load].filter((load) => load !== undefined);
        const worst = loads.toSorted((a, b) => b.others - a.others)[0];
        return [{ round, reading: { value: reading.value / base.value, load: worst } }];
      }),
    );
  }

  /** Median cores of client and server while a metric was read. */
  cores(system: string, metric: string): { readonly client: number; readonly server: number } | undefined {
    const loads = this.#readings(system, metric).flatMap(({ reading }) => reading.load ?? []);
    if (loads.length === 0) return undefined;
    return { client: median(loads.map((load) => load.client)), server: median(loads.map((load) => load.server)) };
  }

  #readings(system: string, metric: string): { readonly round: number; readonly reading: Reading }[] {
    return this.runs.flatMap(({ round, system: name, readings }) => {
      const reading = name === system ? readings?.[metric] : undefined;
      return reading ? [{ round, reading }] : [];
    });
  }
}

function summarize(all: readonly { readonly reading: Reading }[]): Summary | undefined {
  const readings = all.map(({ reading }) => reading);
  const calm = readings.filter(({ load }) => !load || !isDisturbed(load));
  const used = calm.length >= CALM_ENOUGH ? calm : readings;
  if (used.length === 0) return undefined;
  const values = used.map(({ value }) => value);
  return {
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
    count: used.length,
    clientBound: used.some(({ load }) => load && isClientBound(load)),
    disturbed: used.some(({ load }) => load && isDisturbed(load)),
  };
}
