/** What a measure is: it takes readings of one fresh system. */

import type { System } from "./adapter.ts";
import type { Load } from "./server/load-watch.ts";
import type { Settings } from "./settings.ts";

export interface Metric {
  /** Unique over all measures; also names it in targets and in JSON. */
  readonly key: string;
  /** Head of its column. */
  readonly label: string;
  /** True if a column with the ratio to the floor follows. */
  readonly ratio?: boolean;
  /** True if a column with the cores of client and server follows. */
  readonly cores?: boolean;
}

export interface Reading {
  readonly value: number;
  /** Who used the CPU meanwhile. */
  readonly load?: Load | undefined;
}

/** By key of the metric; a metric that a system does not have is absent. */
export type Readings = Readonly<Record<string, Reading>>;

export interface Measure {
  /** As in `--measure`. */
  readonly name: string;
  title(settings: Settings): string;
  /** Under the table: what was counted, and how. */
  readonly note: string;
  readonly metrics: readonly Metric[];
  /** True if it asks what the objects did, for which their classes are wrapped. */
  readonly counted?: boolean;
  run(system: System, settings: Settings): Promise<Readings>;
}
