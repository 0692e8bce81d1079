/** Every measure, in the order of the report. */

import type { Measure } from "../measure.ts";
import { drain } from "./drain.ts";
import { fanIn } from "./fan-in.ts";
import { idle } from "./idle.ts";
import { latency } from "./latency.ts";
import { memory } from "./memory.ts";
import { sends } from "./sends.ts";

export const MEASURES: readonly Measure[] = [sends, latency, drain, fanIn, idle, memory];
