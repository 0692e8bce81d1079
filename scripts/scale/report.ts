/** The reckoning as Markdown, in sections: each stands in docs/SCALE.md as it is printed. */

import { METER_TEXT, METERS, paidMonth, type Prices } from "../costs.ts";
import { numberText, table } from "../markdown.ts";
import { chart } from "./chart.ts";
import { allOf, type Part } from "./month.ts";
import { ASSUMED } from "./platform.ts";
import { BURST_NAME, SIZES, type Scale, type Setting, type StormRow } from "./run.ts";

export interface Section {
  readonly name: string;
  readonly text: string;
}

/** Two digits are what such numbers are worth. */
const about = (value: number): string => numberText(Number(value.toPrecision(2)));
const dollars = (value: number): string => `$${value < 10 ? value.toFixed(2) : about(value)}`;
const seconds = (ms: number): string => `${about(ms / 1_000)} s`;
const percent = (share: number): string => `${about(share * 100)} %`;

function nameOf({ identities, shards, listedMax, isFitted }: Setting): string {
  return `${numberText(identities)}${isFitted ? `, ${shards} shards of ${numberText(listedMax)}` : ""}`;
}

export function sectionsOf(scale: Scale, prices: Prices): Section[] {
  return [
    { name: "short", text: shortText(scale, prices) },
    { name: "day", text: dayText(scale) },
    { name: "month", text: monthText(scale, prices) },
    { name: "parts", text: partsText(scale, prices) },
    { name: "changes", text: changesText(scale, prices) },
    { name: "directory", text: directoryText(scale) },
    { name: "queue", text: queueText(scale) },
    { name: "storm", text: stormText(scale) },
    { name: "wave", text: waveText(scale) },
    { name: "hot", text: hotText(scale) },
    { name: "alarms", text: alarmsText(scale) },
  ];
}

/** What the tables below say, in a few lines. */
function shortText({ months, storms, directory, hot, sweeps }: Scale, prices: Prices): string {
  const worth = months.map(({ month }) => paidMonth(allOf(month), prices).worth);
  const of = (identities: number, isFitted: boolean): number =>
    months.findIndex(({ setting }) => setting.identities === identities && setting.isFitted === isFitted);
  const [small, middle, large] = SIZES as [number, number, number];
  const [largeAsItComes, largeFitted] = [of(large, false), of(large, true)];
  const looks = paidMonth(months[largeFitted]!.month["looks at the whole bus"], prices).worth;
  const room = paidMonth(months[largeAsItComes]!.month["no room in the directory"], prices).worth;
  const stormOf = (index: number, how: StormRow["how"]): StormRow =>
    storms.find((row) => row.setting === months[index]!.setting && row.how === how)!;
  const [bad, good, open] = [
    stormOf(largeAsItComes, "join"),
    stormOf(largeFitted, "join"),
    stormOf(largeAsItComes, "open"),
  ];
  const full = hot.find(({ name }) => name === BURST_NAME)!.hot;
  return [
    `- A bus of ${numberText(small)} identities is worth ${dollars(worth[of(small, false)]!)} a month, one of ${numberText(middle)} ${dollars(worth[of(middle, false)]!)}, one of`,
    `  ${numberText(large)} ${dollars(worth[largeAsItComes]!)}, or ${dollars(worth[largeFitted]!)} with shards made for it.`,
    `- Of that, ${percent(looks / worth[largeFitted]!)} is for looks at the whole bus (\`discover\` without a name).`,
    `- ${numberText(large)} identities on ${months[largeAsItComes]!.setting.shards} shards that list ${numberText(months[largeAsItComes]!.setting.listedMax)} each pay ${dollars(room)} a month for asking in vain to be listed.`,
    `- After a deployment ${percent(0.99)} of ${about(bad.storm.sessions)} sessions are back within ${seconds(bad.storm.nearlyAllBackMs)} on ${bad.setting.shards} shards, ${seconds(good.storm.nearlyAllBackMs)} on ${good.setting.shards}, and`,
    `  ${seconds(open.storm.nearlyAllBackMs)} where no shard is asked. It costs ${dollars(good.dollars)}.`,
    `- The first shard is asked ${about(directory[largeFitted]!.firstShardPerS)} times a second in the busiest hour, on ${good.setting.shards} shards too: every look begins with it.`,
    `- ${numberText(1_000)} messages a second to one identity, for 10 s, are all stored, the last after ${seconds(full.lastStoredAtMs)}; ${percent(full.atOnce / full.written)} at the first try.`,
    `- Of ${numberText(large)} identities that connected on a day, ${about(sweeps.at(-1)!.peakPerS)} sweep each second of the busiest minute of the next.`,
  ].join("\n");
}

function dayText({ day }: Scale): string {
  const each = (count: number): string => about(count / day.identities);
  const { counts } = day;
  const used = table([
    ["on a working day, for each identity", ""],
    ["agents started", each(counts.start)],
    ["connects, after breaks too", each(counts.connect)],
    ["messages written", each(counts.message)],
    ["looks at one peer", each(counts.peer_look)],
    ["looks at the whole bus", each(counts.bus_look)],
    ["sessions online in the busiest minute", each(day.onlinePeak)],
  ]);
  const hourly = Array.from({ length: 24 }, (_, hour) => {
    const minutes = day.online.slice(hour * 60, (hour + 1) * 60);
    return minutes.reduce((sum, online) => sum + online, 0) / 60 / day.identities;
  });
  const drawn = chart(
    hourly.map((value, hour) => [`${String(hour).padStart(2, "0")}:00`, value]),
    (value) => value.toFixed(2),
  );
  return `${used}\n\n${fence(`sessions online for each identity, by the hour (UTC)\n${drawn}`)}`;
}

function monthText({ months }: Scale, prices: Prices): string {
  const usages = months.map(({ month }) => allOf(month));
  const paid = usages.map((usage) => paidMonth(usage, prices));
  return table([
    ["in a month", ...months.map(({ setting }) => nameOf(setting))],
    ...METERS.map((meter) => [METER_TEXT[meter], ...usages.map((usage) => about(usage[meter]))]),
    ["worth", ...paid.map(({ worth }) => dollars(worth))],
    ["bill", ...paid.map(({ bill }) => dollars(bill))],
    ["worth, an identity", ...paid.map(({ worth }, i) => `$${(worth / months[i]!.setting.identities).toFixed(4)}`)],
    ["mostly", ...paid.map(({ mostly }) => METER_TEXT[mostly])],
  ]);
}

function partsText({ months }: Scale, prices: Prices): string {
  const parts = Object.keys(months[0]!.month) as Part[];
  return table([
    ["worth in a month", ...months.map(({ setting }) => nameOf(setting))],
    ...parts.map((part) => [part, ...months.map(({ month }) => dollars(paidMonth(month[part], prices).worth))]),
  ]);
}

function changesText({ changes }: Scale, prices: Prices): string {
  return table([
    ["worth in a month, as it comes", ...SIZES.map((identities) => numberText(identities))],
    ...changes.map(({ name, months }) => [
      name,
      ...months.map((month) => dollars(paidMonth(allOf(month), prices).worth)),
    ]),
  ]);
}

function directoryText({ directory, unevenness }: Scale): string {
  const loads = table([
    ["in the busiest hour", ...directory.map(({ setting }) => nameOf(setting))],
    ["identities that are not listed", ...directory.map(({ notListed }) => about(notListed))],
    ["calls a second at a shard", ...directory.map(({ admissionsPerShardS }) => about(admissionsPerShardS))],
    [
      "looks at the whole bus a second: each asks the same identities",
      ...directory.map(({ looksPerS }) => about(looksPerS)),
    ],
    ["calls a second at the first shard", ...directory.map(({ firstShardPerS }) => about(firstShardPerS))],
    ["pages of a look", ...directory.map(({ look }) => about(look.pages))],
    ["calls of shards in a look", ...directory.map(({ look }) => about(look.shardCalls))],
    ["calls of identities in a look", ...directory.map(({ look }) => about(look.objectCalls))],
    ["of all these, one after the other", ...directory.map(({ look }) => about(look.roundsInAll))],
    [
      `a look takes, at ${ASSUMED.object_call_ms} ms a call`,
      ...directory.map(({ look }) => seconds(look.roundsInAll * ASSUMED.object_call_ms)),
    ],
  ]);
  const even = unevenness.map(({ shards, most }) => `${shards} shards: ${most.toFixed(2)}`).join("; ");
  return `${loads}\n\nThe fullest shard over the mean, of a million keys: ${even}.`;
}

function queueText({ queue }: Scale): string {
  return table([
    ["load of one object", ...queue.map(({ load }) => percent(load))],
    ["mean wait, simulated", ...queue.map(({ simulatedMs }) => `${simulatedMs.toFixed(2)} ms`)],
    ["mean wait, by the formula", ...queue.map(({ formulaMs }) => `${formulaMs.toFixed(2)} ms`)],
  ]);
}

function stormText({ storms }: Scale): string {
  return table([
    [
      "bus",
      "admission",
      "sessions",
      "dials in the first second",
      "worst second of a shard",
      "refused by shards",
      "dials a session",
      "half are back",
      "99 %",
      "all",
      "worth",
      "worst second a day later",
    ],
    ...storms.map(({ setting, how, storm, dollars: worth, echo }) => [
      nameOf(setting),
      how,
      about(storm.sessions),
      about(storm.dialsByS[0] ?? 0),
      how === "open" ? "–" : about(storm.shardPeakPerS),
      how === "open" ? "–" : about(storm.refused),
      (storm.dials / storm.sessions).toFixed(1),
      seconds(storm.halfBackMs),
      seconds(storm.nearlyAllBackMs),
      seconds(storm.allBackMs),
      dollars(worth),
      about(echo.dialsPeakPerS),
    ]),
  ]);
}

/** Dials over time, of the largest bus as it comes. */
function waveText({ storms }: Scale): string {
  const row = storms.findLast(({ how, setting }) => how === "join" && !setting.isFitted) as StormRow;
  const { dialsByS } = row.storm;
  const step = Math.max(1, Math.ceil(dialsByS.length / 20));
  const bars: (readonly [string, number])[] = [];
  for (let from = 0; from < dialsByS.length; from += step) {
    const part = dialsByS.slice(from, from + step);
    bars.push([`${from} s`, part.reduce((sum, value) => sum + value, 0) / part.length]);
  }
  return fence(
    `dials a second after all ${about(row.storm.sessions)} sockets of ${nameOf(row.setting)} identities were cut\n` +
      chart(bars, about),
  );
}

function hotText({ hot }: Scale): string {
  return table([
    [
      "to one identity",
      "written",
      "stored",
      "at the first try",
      "refused: full",
      "too many by one",
      "too fast",
      "overloaded",
      "wait p50",
      "p99",
      "last stored after",
    ],
    ...hot.map(({ name, hot: { written, stored, atOnce, refused, waitP50Ms, waitP99Ms, lastStoredAtMs } }) => [
      name,
      about(written),
      about(stored),
      percent(atOnce / written),
      about(refused.queue_full),
      about(refused.sender_quota),
      about(refused.rate_limited),
      about(refused.overloaded),
      seconds(waitP50Ms),
      seconds(waitP99Ms),
      seconds(lastStoredAtMs),
    ]),
  ]);
}

function alarmsText({ sweeps, expiries }: Scale): string {
  return table([
    ["alarms", ...sweeps.map(({ identities }) => numberText(identities))],
    ["daily sweep: a second, in its busiest minute", ...sweeps.map(({ peakPerS }) => about(peakPerS))],
    ["the same, if spread evenly", ...sweeps.map(({ spreadPerS }) => about(spreadPerS))],
    [
      "three days after all who are online were last heard: a second, in the busiest minute",
      ...expiries.map(({ peakPerS }) => about(peakPerS)),
    ],
  ]);
}

function fence(text: string): string {
  return `\`\`\`\n${text}\n\`\`\``;
}

/** A document with each of its sections as it is now: between `<!-- NAME -->` and `<!-- end -->`. @throws if one has no place */
export function withSections(document: string, sections: readonly Section[]): string {
  return sections.reduce((text, section) => {
    const from = `<!-- ${section.name} -->`;
    const [before, after] = text.split(from);
    const end = after?.indexOf(END) ?? -1;
    if (before === undefined || after === undefined || end < 0)
      throw new Error(`the document has no place for "${section.name}"`);
    return `${before}${from}\n\n${section.text}\n\n${after.slice(end)}`;
  }, document);
}

const END = "<!-- end -->";
