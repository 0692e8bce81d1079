/** The results as Markdown. */

import type { Adapter } from "./adapter.ts";
import { BASELINE } from "./adapters/index.ts";
import type { Measure, Metric } from "./measure.ts";
import type { Results, Summary } from "./results.ts";
import type { Settings } from "./settings.ts";
import { judge } from "./targets.ts";

export interface Context {
  readonly settings: Settings;
  readonly isQuick: boolean;
  /** The machine and the versions, one line each. */
  readonly facts: readonly string[];
  readonly adapters: readonly Adapter[];
  readonly measures: readonly Measure[];
  /** Why systems are missing, one sentence each. */
  readonly skipped: readonly string[];
}

const ABSENT = "–";

/** @returns the whole report */
export function formatReport(results: Results, context: Context): string {
  const { settings, isQuick, facts, adapters, measures, skipped } = context;
  const parts = [
    "# Benchmark",
    facts.map((fact) => `- ${fact}`).join("\n"),
    isQuick ? "**Quick: short readings that show that everything works. Not a measurement.**" : "",
    `Median (min–max) of ${settings.runs} ${settings.runs === 1 ? "run" : "runs"}. × = ratio to the floor in the same round. ` +
      "ᶜ the client was the limit. ᵈ other work took more than 0.3 core. Cores: client / server.",
    ...measures.map((measure) => formatMeasure(results, measure, adapters, settings)),
    "## Targets",
    formatTargets(results),
    "## What an accepted send survives",
    adapters.map(({ name, survives }) => `- ${name}: ${survives}`).join("\n"),
    skipped.length > 0 ? `## Skipped\n\n${skipped.map((line) => `- ${line}`).join("\n")}` : "",
    formatErrors(results),
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function formatMeasure(results: Results, measure: Measure, adapters: readonly Adapter[], settings: Settings): string {
  const taking = adapters.filter(({ measures }) => !measures || measures.includes(measure.name));
  const head = ["system", ...measure.metrics.flatMap(headsOf)];
  const rows = taking.map(({ name }) => [name, ...measure.metrics.flatMap((metric) => cellsOf(results, name, metric))]);
  return `## ${measure.title(settings)}\n\n${formatTable([head, ...rows])}\n\n${measure.note}`;
}

function headsOf({ label, ratio, cores }: Metric): string[] {
  return [label, ...(ratio ? ["×"] : []), ...(cores ? ["cores"] : [])];
}

function cellsOf(results: Results, system: string, { key, ratio, cores }: Metric): string[] {
  const used = results.cores(system, key);
  return [
    formatSummary(results.summary(system, key)),
    ...(ratio ? [system === BASELINE ? "1" : formatSummary(results.ratio(system, key, BASELINE), false)] : []),
    ...(cores ? [used ? `${used.client.toFixed(2)} / ${used.server.toFixed(2)}` : ABSENT] : []),
  ];
}

function formatSummary(summary: Summary | undefined, withMarks = true): string {
  if (!summary) return ABSENT;
  const { median, min, max, count, clientBound, disturbed } = summary;
  const range = count > 1 ? ` (${formatNumber(min)}–${formatNumber(max)})` : "";
  const marks = withMarks ? `${clientBound ? " ᶜ" : ""}${disturbed ? " ᵈ" : ""}` : "";
  return `${formatNumber(median)}${range}${marks}`;
}

function formatTargets(results: Results): string {
  const rows = judge(results).map(({ text, verdict, median, min, max }) => [
    text,
    median === undefined ? ABSENT : `${formatNumber(median)} (${formatNumber(min!)}–${formatNumber(max!)})`,
    verdict,
  ]);
  return formatTable([["interlink-socket", "measured", ""], ...rows]);
}

function formatErrors(results: Results): string {
  const failed = results.runs.filter(({ error }) => error !== undefined);
  if (failed.length === 0) return "";
  const lines = failed.map(({ round, measure, system, error }) => `- round ${round}, ${measure}, ${system}: ${error}`);
  return `## Failed\n\n${lines.join("\n")}`;
}

function formatTable([head, ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head!), line(head!.map((_, i) => (i === 0 ? "---" : "--:"))), ...rows.map(line)].join("\n");
}

/** Three digits that mean something, and no more. */
function formatNumber(value: number): string {
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
