/** The user's file of buses: what it may say, and the word for each way in which it may be wrong. */

import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { NAMED_BUSES_MAX, readBuses } from "../../../src/client/trust/buses-file.ts";

let dir = "";
let path = "";
beforeEach(() => {
  const made = mkdtempSync(join(tmpdir(), "interlink-buses-"));
  [dir, path] = [made, join(made, "buses.json")];
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
});

const read = (value: unknown) => {
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value), { mode: 0o600 });
  return readBuses(path);
};

describe("buses.json", () => {
  it("is no buses where it is not there", () => {
    expect(readBuses(path)).toEqual(new Map());
  });

  it("names buses in its order, with up to four origins, a key beside it, and where the bus may be", () => {
    const named = read({
      work: { url: "https://a.example, https://b.example/", key: "work.key" },
      tailnet: { url: "https://10.0.0.1", profile: "private", key: "/keys/t.key" },
    });
    if ("refused" in named) throw new Error(JSON.stringify(named));
    expect([...named.values()].map((bus) => ({ ...bus, urls: bus.urls.map(({ origin }) => origin) }))).toEqual([
      { name: "work", urls: ["https://a.example", "https://b.example"], key: join(dir, "work.key"), profile: "public" },
      { name: "tailnet", urls: ["https://10.0.0.1"], key: "/keys/t.key", profile: "private" },
    ]);
  });

  const url = "https://bus.example";
  it.each([
    { file: "{", why: "not_json", because: "half a file" },
    { file: "[]", why: "not_an_object", because: "a list" },
    { file: "null", why: "not_an_object", because: "nothing" },
    { file: `"https://bus.example"`, why: "not_an_object", because: "a text" },
    {
      file: `{"work":{"url":"${url}","key":"a.key"},"home":{"url":"${url}"},"work":{"url":"${url}"}}`,
      why: "repeated_name",
      entry: "work",
      because: "a name twice",
    },
    {
      file: `{"work":{"url":"${url}","key":"a.key","key":"b.key"}}`,
      why: "repeated_field",
      entry: "work",
      field: "key",
      because: "a field twice",
    },
    { file: { work: url }, why: "not_an_object", entry: "work", because: "no object" },
    { file: { work: { url, keyfile: "k" } }, why: "unknown_field", entry: "work", because: "a mistyped key" },
    { file: { work: {} }, why: "bad_url", entry: "work", because: "no address" },
    { file: { work: { url: 1 } }, why: "bad_url", entry: "work", because: "a number" },
    { file: { work: { url: "" } }, why: "bus_count", entry: "work", because: "an empty one" },
    {
      file: { work: { url: "https://a,https://b,https://c,https://d,https://e" } },
      why: "bus_count",
      entry: "work",
      because: "five",
    },
    { file: { work: { url: "http://bus.example" } }, why: "not_https", entry: "work", because: "in the clear" },
    { file: { work: { url: "https://10.0.0.1" } }, why: "private_address", entry: "work", because: "private, unsaid" },
    { file: { work: { url: "https://169.254.169.254" } }, why: "private_address", entry: "work", because: "metadata" },
    { file: { work: { url: "https://u:p@bus.example" } }, why: "userinfo", entry: "work", because: "a password" },
    { file: { work: { url: "https://bus.example/x" } }, why: "not_an_origin", entry: "work", because: "a path" },
    { file: { work: { url, key: "" } }, why: "bad_key_path", entry: "work", because: "no path" },
    { file: { work: { url, key: 1 } }, why: "bad_key_path", entry: "work", because: "a number" },
    { file: { work: { url, profile: "any" } }, why: "bad_profile", entry: "work", because: "a word" },
    { file: { "": { url } }, why: "bad_name", because: "no name" },
    { file: { "https://x": { url } }, why: "bad_name", because: "an address as a name" },
    { file: { "a,b": { url } }, why: "bad_name", because: "two names" },
    { file: { "a\u001b[31m": { url } }, why: "bad_name", because: "a terminal's word" },
    { file: { "a\u202eb": { url } }, why: "bad_name", because: "turned round" },
    { file: { ["n".repeat(65)]: { url } }, why: "bad_name", because: "too long" },
    {
      file: Object.fromEntries(Array.from({ length: NAMED_BUSES_MAX + 1 }, (_, index) => [`b${index}`, { url }])),
      why: "too_many",
      because: "more than anybody is on",
    },
  ])("refuses $because: $why", ({ file, why, entry, field }) => {
    expect(read(file)).toEqual({
      refused: "bad_buses_file",
      path,
      mend: `cat '${path}'`,
      why,
      ...(entry !== undefined && { entry }),
      ...(field !== undefined && { field }),
    });
  });

  it("takes a name that an object would hide as any other", () => {
    const named = read(`{"__proto__": {"url": "${url}"}, "constructor": {"url": "${url}"}}`);
    expect("refused" in named ? named : [...named.keys()]).toEqual(["__proto__", "constructor"]);
  });

  it("is not read where others may write it, through a link, or far too large", () => {
    writeFileSync(path, "{}", { mode: 0o600 });
    chmodSync(path, 0o666);
    expect(readBuses(path)).toMatchObject({ refused: "loose_mode" });
    rmSync(path);
    symlinkSync("/dev/null", path);
    expect(readBuses(path)).toMatchObject({ refused: "symlink" });
    rmSync(path);
    expect(read(" ".repeat(65 * 1_024))).toMatchObject({ refused: "too_large" });
  });
});
