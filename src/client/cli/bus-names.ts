/** The user's word for a bus, written by `setup` into the file in which they name buses. */

import { dirname } from "node:path";
import type { BusUrl } from "../bus/bus-url.ts";
import { readBuses, type BusesFileRefusal } from "../trust/buses-file.ts";
import { ensurePrivateDirectory, OTHERS_MAY_NOT, readPrivateFile, replacePrivateFile } from "../trust/private-file.ts";

const FILE_MAX_BYTES = 64 * 1_024;

/** Puts a bus first, where agents begin; what else is named stays. @returns its name */
export function nameBus(path: string, url: BusUrl): { readonly name: string } | BusesFileRefusal {
  const buses = readBuses(path);
  if ("refused" in buses) return buses;
  const known = [...buses.values()].find(({ urls }) => urls.some(({ origin }) => origin === url.origin));
  const name = known?.name ?? new URL(url.origin).host;
  if (known && [...buses.keys()][0] === name) return { name };
  const refusal = ensurePrivateDirectory(dirname(path));
  if (refusal) return refusal;
  const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: FILE_MAX_BYTES });
  if (file && "refused" in file) return file;
  const entries = file === undefined ? {} : (JSON.parse(file.text) as Record<string, unknown>);
  const { [name]: own = { url: url.origin }, ...others } = entries;
  replacePrivateFile(path, `${JSON.stringify({ [name]: own, ...others }, null, 2)}\n`);
  return { name };
}

/** The key that the file names for a bus, where it is not the usual one; a file that cannot be read is told of later. */
export function keyNamedFor(path: string, url: BusUrl): string | undefined {
  const buses = readBuses(path);
  if ("refused" in buses) return undefined;
  return [...buses.values()].find(({ urls }) => urls.some(({ origin }) => origin === url.origin))?.key;
}
