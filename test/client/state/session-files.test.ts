/** Whose the files in the folder of the sessions are: found by what they say, whatever bus they are of, and nobody else's. */

import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { keepOwner, ownerIn } from "../../../src/client/state/owner.ts";
import { sessionStatePath } from "../../../src/client/state/paths.ts";
import { lookInto, sessionFiles, sessionFilesHere } from "../../../src/client/state/session-files.ts";
import type { Key } from "../../../src/protocol/address.ts";
import { publicKeyOf } from "../../../src/protocol/signing.ts";
import { alter, newPath, open, session } from "./state-fixture.ts";

let ann: Key;
let bob: Key;
beforeAll(async () => {
  ann = await publicKeyOf(new Uint8Array(32).fill(1));
  bob = await publicKeyOf(new Uint8Array(32).fill(2));
});

/** A session's file, as the session leaves it. */
function made(folder: string, key: Key, id: string, bus?: string): string {
  const path = sessionStatePath(folder, key, session(id), bus);
  const { state } = open(path);
  keepOwner(state.meta, { key, session: session(id), ...(bus !== undefined && { bus }) });
  state.close();
  return path;
}

it("are those of each bus, and of a long id those of its key alone", () => {
  const folder = dirname(newPath());
  const long = "x".repeat(64);
  const ours = [made(folder, ann, "s"), made(folder, ann, "s", "https://b.example"), made(folder, ann, long)];
  const theirs = [made(folder, bob, "s"), made(folder, bob, long)];
  const { others, unknown } = sessionFilesHere(folder, ann);
  const paths = (files: readonly { path: string }[]) => files.map(({ path }) => path).sort();
  expect(paths(sessionFiles(folder, ann))).toEqual(ours.toSorted());
  expect(paths(others)).toEqual(theirs.toSorted());
  expect(unknown).toEqual([]);
  expect(sessionFiles(folder, ann).map(({ owner }) => owner?.bus)).toContain("https://b.example");
});

it("of an earlier version are told by their names, and where a name does not tell, they are nobody's", () => {
  const folder = dirname(newPath());
  const [known, further, long] = [
    sessionStatePath(folder, ann, session("s")),
    sessionStatePath(folder, ann, session("s"), "https://b.example"),
    sessionStatePath(folder, ann, session("x".repeat(64))),
  ];
  for (const path of [known, further, long]) open(path);
  const { ours, others, unknown } = sessionFilesHere(folder, ann);
  expect(ours).toEqual([{ session: "s", path: known, buses: [] }]);
  expect(others).toEqual([]);
  expect(unknown.map(({ path }) => path).sort()).toEqual([further, long].sort());
});

it("are known, with the buses that know them, whatever version wrote them", () => {
  const folder = dirname(newPath());
  const path = made(folder, ann, "s", "https://b.example");
  const { state } = open(path);
  for (const bus of ["https://b.example", "https://c.example"]) state.meta.setGeneration(bus, "g");
  state.close();
  alter(path, "PRAGMA user_version = 99");
  const [file, ...more] = sessionFiles(folder, ann);
  expect(file).toMatchObject({ path, buses: ["https://b.example", "https://c.example"] });
  expect(more).toEqual([]);
  expect(lookInto(file!, () => true)).toBeUndefined();
});

it("that say what their names do not are nobody's: a copy, or spoilt", () => {
  const folder = dirname(newPath());
  const path = made(folder, ann, "s");
  open(path.replace("s-", "t-")).state.close();
  copyFileSync(path, join(folder, "s-0123456789abcdef.db"));
  expect(sessionFilesHere(folder, ann).ours.map((file) => file.path)).toEqual([path]);
  expect(sessionFilesHere(folder, ann).unknown).toHaveLength(2);
});

it.each(["{", "null", "[]", "7", '{"key":"x","session":"s"}', '{"session":"s"}', "spoilt bus"])(
  "an owner that is none is not said: %s",
  (text) => {
    const value = text === "spoilt bus" ? JSON.stringify({ key: ann, session: "s", bus: 1 }) : text;
    expect(ownerIn({ get: () => value })).toBeUndefined();
  },
);
