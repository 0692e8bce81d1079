/** What `setup` would change in hosts' files, what it does change, and how it takes that back. */

import { dirname } from "node:path";
import { HOSTS } from "../hosts/all.ts";
import { deleteConfig, missingFolders, readConfig, replaceConfig, type FileTrouble } from "../hosts/config-file.ts";
import type { EditRefusal } from "../hosts/edit.ts";
import type { Entry, Host, Place, Write } from "../hosts/host.ts";
import { withoutWrite, withWrite, type SetupRecord, type Written } from "./setup-record.ts";

/** What is to become of one entry. */
export type Plan = { readonly host: Host; readonly write: Write } & (
  | { readonly state: "same" }
  | {
      readonly state: "write";
      /** The file itself, and what is in it now. */
      readonly file: string;
      readonly before: string | undefined;
      readonly after: string;
      readonly written: Written;
    }
  | { readonly state: "trouble"; readonly trouble: Trouble }
);

export type Trouble = FileTrouble | EditRefusal["refused"] | "changed_meanwhile";

/** Looks, and changes nothing. */
export function planWrites(hosts: readonly Host[], place: Place, entry: Entry, record: SetupRecord): Plan[] {
  return hosts.flatMap((host) => host.writes(place, entry).map((write) => planOf(host, write, record)));
}

function planOf(host: Host, write: Write, record: SetupRecord): Plan {
  const { path, what, edit } = write;
  const trouble = (why: Trouble): Plan => ({ host, write, state: "trouble", trouble: why });
  const config = readConfig(path);
  if ("trouble" in config) return trouble(config.trouble);
  const { path: file, text: before } = config;
  const known = record.writes.find((each) => each.path === path && each.what === what);
  if (known && before !== undefined && edit.holds(before)) return { host, write, state: "same" };
  // Ours of before goes first: it may name another program, or another name of ours.
  const removed = known && before !== undefined ? edit.remove(before, known.undo) : { text: before };
  if ("refused" in removed) return trouble(removed.refused);
  const added = edit.add("gone" in removed ? before : removed.text);
  if ("refused" in added) return trouble(added.refused);
  const folders = known?.folders ?? missingFolders(dirname(file));
  const written = { host: host.name, path, what, undo: added.undo, folders };
  return { host, write, state: "write", file, before, after: added.text, written };
}

/**
 * Does what was planned.
 * @param keep writes the record down: before the file, so that what stands in a file can always be taken back
 */
export function applyPlan(plan: Plan, record: SetupRecord, keep: (record: SetupRecord) => void): SetupRecord | Trouble {
  if (plan.state !== "write") return plan.state === "same" ? record : plan.trouble;
  const { file, before, after, written } = plan;
  const next = withWrite(record, written);
  keep(next);
  if (replaceConfig(file, before, after)) return next;
  keep(record);
  return "changed_meanwhile";
}

/** Takes one entry back. @returns how its file is left; or why it was let alone */
export function takeBack(written: Written, place: Place): "restored" | "gone" | Trouble {
  const { path, what, undo, folders } = written;
  const host = HOSTS.find(({ name }) => name === written.host);
  const write = host?.writes(place, { command: "", args: [], env: {} }).find((each) => each.what === what);
  if (!write) return "other_shape";
  const config = readConfig(path);
  if ("trouble" in config) return config.trouble;
  const { path: file, text: before } = config;
  if (before === undefined) return "gone";
  const removed = write.edit.remove(before, undo);
  if ("refused" in removed) return removed.refused;
  if ("gone" in removed) return "gone";
  const isDone =
    removed.text === undefined ? deleteConfig(file, before, folders) : replaceConfig(file, before, removed.text);
  return isDone ? "restored" : "changed_meanwhile";
}

/** Takes everything back that can be. @param keep as of {@link applyPlan} */
export function takeAllBack(
  record: SetupRecord,
  place: Place,
  keep: (record: SetupRecord) => void,
): { readonly record: SetupRecord; readonly done: readonly (readonly [Written, "restored" | "gone" | Trouble])[] } {
  let left = record;
  // The last first: one of them may stand in what another made.
  const done = record.writes.toReversed().map((written) => {
    const outcome = takeBack(written, place);
    if (outcome === "restored" || outcome === "gone") keep((left = withoutWrite(left, written)));
    return [written, outcome] as const;
  });
  return { record: left, done };
}

const TROUBLES: Readonly<Record<Trouble, string>> = {
  not_a_file: "is no file",
  too_large: "is far too large for a configuration",
  not_text: "is no UTF-8",
  dangling_link: "is a link that leads nowhere",
  denied: "may not be read",
  unreadable: "has a mistake in it, so its host does not read it either; mend that first",
  other_shape: "has something else where servers are named",
  repeated_key: "has a key twice where servers are named; which one counts is not sure",
  taken: "has a server `interlink` that is not by us; take it out first, or leave it so",
  changed: "has our entry, but somebody has changed it; take it out by hand",
  changed_meanwhile: "has changed at this very moment; try again",
};

/** After the file's name, without a stop. */
export function wordsOfTrouble(trouble: Trouble): string {
  return TROUBLES[trouble];
}
