/** The table of guards keeps up with the sources: each text is there once, and what stands in its place is not the same. */

import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";
import { countText, readReport, withoutGuard } from "../../scripts/mutate.ts";
import { GUARDS, type Guard } from "../../scripts/mutate/guards.ts";

describe("each guard", () => {
  it.each(GUARDS.map((guard) => ({ ...guard })))("$name is found exactly once in $file", async (guard) => {
    const source = await readFile(join(PROJECT_DIR, "src", guard.file), "utf8");
    expect(countText(source, guard)).toBe(1);
    expect(withoutGuard(source, guard)).not.toBe(source);
    for (const file of guard.tests.files) await access(join(PROJECT_DIR, file));
  });

  it("has a name of its own, and tests of a project that there is", async () => {
    expect(new Set(GUARDS.map(({ name }) => name)).size).toBe(GUARDS.length);
    const config = await readFile(join(PROJECT_DIR, "vitest.config.ts"), "utf8");
    for (const { tests } of GUARDS) expect(config).toContain(`name: "${tests.project}"`);
  });

  it("that is to survive is explained in docs/GUARANTEES.md", async () => {
    const document = await readFile(join(PROJECT_DIR, "docs/GUARANTEES.md"), "utf8");
    for (const { name, survives } of GUARDS) if (survives !== undefined) expect(document).toContain(name);
  });
});

describe("the script", () => {
  const guard: Guard = {
    name: "x",
    file: "x.ts",
    text: "if (a) b();",
    instead: "$&",
    why: "",
    tests: { project: "node", files: [] },
  };

  it("says when a text is no longer found, or twice", () => {
    expect(() => withoutGuard("if (a) c();", guard)).toThrow('"x" is found 0 times in src/x.ts');
    expect(() => withoutGuard("if (a) b(); if (a) b();", guard)).toThrow("2 times");
    expect(withoutGuard("1; if (a) b(); 2;", guard)).toBe("1; $& 2;");
  });

  it.each([
    { why: "a test failed", tests: [{ status: "passed" }, { status: "failed", fullName: "keeps" }], outcome: "failed" },
    { why: "all passed", tests: [{ status: "passed" }], outcome: "passed" },
    { why: "nothing ran", tests: [{ status: "skipped" }], outcome: "broken" },
    { why: "the file did not load", tests: [], message: "SyntaxError", outcome: "broken" },
  ])("takes for $outcome what has: $why", ({ tests, message, outcome }) => {
    const numPassedTests = tests.filter(({ status }) => status === "passed").length;
    const report = { numPassedTests, testResults: [{ message: message ?? "", assertionResults: tests }] };
    expect(readReport(JSON.stringify(report), "")).toMatchObject({ outcome });
  });

  it("takes a run without a report for broken", () => {
    expect(readReport("", "it crashed")).toEqual({ outcome: "broken", why: "it crashed" });
  });
});
