/** Every command of the README is run by a test, or by CI itself: a new one must say by which. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const textOf = (path: string) => readFileSync(join(ROOT, path), "utf8");
const { scripts } = JSON.parse(textOf("package.json")) as { scripts: Record<string, string> };

/** A file, and words of it that are there as long as it runs the command. */
type RunBy = readonly [path: string, words: string];

const RUN_BY: Readonly<Record<string, RunBy>> = {
  "interlink-edge setup https://bus.example --name me": ["docs/CLI.md", "setup https://bus.example --name me"],
  "interlink-edge invite": ["docs/CLI.md", "interlink-edge invite"],
  "interlink-edge setup INVITE --name you": ["docs/CLI.md", "setup INVITE --name you"],
  "npm ci": [".ci/run", "npm ci"],
  "npm pack": ["scripts/install-package.ts", '"pack"'],
  "npm install -g ./interlink-edge-0.1.0.tgz": ["scripts/install-package.ts", '"install"'],
  "npm start": ["test/scripts/start.test.ts", "npmStart(...flags"],
  "npm start -- --var ACCESS:open": ["test/scripts/start.test.ts", '"ACCESS:open"'],
  "npm run demo": ["test/process/demo.test.ts", '"demo"'],
  "npm run check": [".ci/run", "npm run check"],
  "npm test": ["package.json", "npm test"],
  "npm run test:rest": ["package.json", "npm run test:rest"],
  "npm run mutate": ["test/scripts/mutate.test.ts", "mutate"],
  "npm run invite -- --new-key admin.key": ["test/scripts/invite.test.ts", "--new-key"],
  "npm run deploy -- --var AUDIENCE:https://bus.example --secrets-file secrets.env": [
    "test/scripts/deploy.test.ts",
    "--secrets-file",
  ],
};

function commands(): string[] {
  const blocks = [...textOf("README.md").matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block]) => block!);
  return blocks.flatMap((block) =>
    block
      .split("\n")
      .map((line) => line.replace(/\s+#.*$/, "").trim())
      .filter((line) => line !== "")
      .flatMap((line) => line.split(" && ")),
  );
}

describe("a command of the README", () => {
  it.each([...new Set(commands())])("is run: %s", (command) => {
    const [path, words] = RUN_BY[command] ?? [];
    expect(path, "by which test?").toBeDefined();
    expect(textOf(path!)).toContain(words);
  });

  it("that is a script is one of package.json", () => {
    for (const [, name] of textOf("README.md").matchAll(/npm run(?: -s)? ([\w:-]+)/g))
      expect(scripts).toHaveProperty(name!);
  });

  it("is no leftover of the table", () => {
    expect(Object.keys(RUN_BY).filter((command) => !commands().includes(command))).toEqual([]);
  });
});

it("a file that the README names is there", () => {
  for (const [, path] of textOf("README.md").matchAll(/\]\((?!https?:|#)([^)#]+)/g))
    expect(() => readFileSync(join(ROOT, path!))).not.toThrow(/ENOENT/);
});
