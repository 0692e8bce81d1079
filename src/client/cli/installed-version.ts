/**
 * Sees that the package on the disk has become another than the one that runs. An agent process is only code that was
 * read once, so without this a host that runs for weeks would run what was installed weeks ago.
 */

import { readFileSync } from "node:fs";
import type { Timers } from "../bus/timers.ts";

/** Nobody waits for it, and it costs one small read. */
const LOOK_MS = 5_000;

export interface InstallWatch {
  /** Of the package that we are part of. */
  readonly path: string;
  readonly timers: Pick<Timers, "setTimeout" | "clearTimeout">;
  /** Called once. */
  readonly onReplaced: (version: string) => void;
}

/** Looks until it was told, or until the returned function is called. */
export function watchInstalled({ path, timers, onReplaced }: InstallWatch): () => void {
  const running = versionAt(path);
  let timer: ReturnType<Timers["setTimeout"]> | undefined;
  const look = (): void => {
    const found = versionAt(path);
    // Half-way through an installation there may be nothing, or half a file.
    if (found !== undefined && found !== running) onReplaced(found);
    else timer = timers.setTimeout(look, LOOK_MS);
  };
  if (running !== undefined) timer = timers.setTimeout(look, LOOK_MS);
  return () => timer !== undefined && timers.clearTimeout(timer);
}

function versionAt(path: string): string | undefined {
  try {
    const { version } = JSON.parse(readFileSync(path, "utf8")) as { version?: unknown };
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}
