/** What `npm run deploy` refuses before anything is uploaded, and that a dry run needs no network. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { mustAskForSecrets, objection, readFlags } from "../../scripts/deploy.ts";
import { PROJECT_DIR } from "../../scripts/local-bus.ts";

const KEY = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w";
const AUDIENCE = "https://bus.example";
const JOIN = { AUDIENCE, ADMISSION: "join" };

describe("what is not deployed", () => {
  const rows: [why: string, vars: Record<string, string>, secrets: string[] | undefined, says: RegExp][] = [
    ["no origin", { ADMISSION: "join", ADMIN_KEYS: KEY }, [], /^AUDIENCE is empty/],
    ["an empty origin", { AUDIENCE: " , " }, [], /^AUDIENCE is empty/],
    ["the origin of npm start", { AUDIENCE: "http://127.0.0.1:9440,http://localhost:9440" }, [], /127\.0\.0\.1:9440/],
    ["loopback beside the right one", { AUDIENCE: `${AUDIENCE},http://localhost:9440` }, [], /localhost:9440/],
    ["loopback by IPv6", { AUDIENCE: "http://[::1]:9440" }, [], /whatever machine/],
    ["an origin without TLS", { AUDIENCE: "http://bus.example" }, [], /in the clear/],
    ["what is no origin", { AUDIENCE: `${AUDIENCE}/path` }, [], /not an origin/],
    ["ACCESS=open", { ...JOIN, ADMIN_KEYS: KEY, ACCESS: "open" }, [], /^ACCESS=open/],
    ["HOSTS", { ...JOIN, ADMIN_KEYS: KEY, HOSTS: "bus.example" }, [], /rate limits off/],
    ["join, and nobody invites", JOIN, [], /^ADMISSION=join without ADMIN_KEYS/],
    ["join, and another secret", JOIN, ["OTHER"], /^ADMISSION=join without ADMIN_KEYS/],
    ["an admin key that is none", { ...JOIN, ADMIN_KEYS: "key" }, [], /ADMIN_KEYS has "key"/],
    ["a word that ADMISSION has not", { AUDIENCE, ADMISSION: "closed" }, [], /takes open or join/],
    ["a limit that is no number", { ...JOIN, ADMIN_KEYS: KEY, LIVE_MS: "90s" }, [], /LIVE_MS is "90s"/],
  ];
  it.each(rows)("%s", (_, vars, secrets, says) => {
    const no = objection({ vars, ...(secrets && { secrets: new Set(secrets) }) });
    expect(no).toMatch(says);
    expect(no).toMatch(/\.$/);
    expect(no).not.toContain("\n");
  });
});

describe("what is deployed", () => {
  const rows: [why: string, vars: Record<string, string>, secrets: string[] | undefined][] = [
    ["join with an admin key", { ...JOIN, ADMIN_KEYS: KEY }, undefined],
    ["join with two, and two origins", { ...JOIN, AUDIENCE: `${AUDIENCE}, https://b.example`, ADMIN_KEYS: KEY }, []],
    ["join with a secret", JOIN, ["ADMIN_KEYS"]],
    ["join, as long as nobody asked for secrets", JOIN, undefined],
    ["a bus that is open to all who sign", { AUDIENCE, ADMISSION: "open" }, []],
  ];
  it.each(rows)("%s", (_, vars, secrets) => {
    expect(objection({ vars, ...(secrets && { secrets: new Set(secrets) }) })).toBeUndefined();
  });
});

it("asks the platform for secrets only where they decide", () => {
  expect(mustAskForSecrets({ vars: JOIN })).toBe(true);
  expect(mustAskForSecrets({ vars: { ...JOIN, ADMIN_KEYS: KEY } })).toBe(false);
  expect(mustAskForSecrets({ vars: { AUDIENCE, ADMISSION: "open" } })).toBe(false);
});

describe("arguments", () => {
  it.each([
    [["--var", "A:1", "B:x:y", "--var=C:"], { vars: { A: "1", B: "x:y", C: "" } }],
    [["--dry-run"], { isDryRun: true, vars: {}, chooses: [] }],
    [["--dry-run=false"], { isDryRun: false }],
    [["-h"], { isHelp: true }],
    [["-c", "other.toml", "--minify"], { config: "other.toml", chooses: ["-c", "other.toml"] }],
    [
      ["--name=bus", "--env", "near", "--secrets-file", "f"],
      { env: "near", secretsFile: "f", chooses: ["--name=bus", "--env", "near"] },
    ],
  ])("%j", (args, flags) => {
    expect(readFlags(args)).toMatchObject(flags);
  });
});

describe("the command", () => {
  /** Stands for the platform. What it was asked is all that a run of the command did on the network. */
  let platform: Server;
  let dir: string;
  let asked: string[] = [];
  let secrets: string[] | "no such Worker" | "not logged in" = [];
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "interlink-deploy-"));
    platform = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      const isKnown = Array.isArray(secrets) && request.url!.endsWith("/secrets");
      const error =
        secrets === "no such Worker" ? { code: 10_007, message: "This Worker does not exist" } : { code: 1 };
      response.writeHead(isKnown ? 200 : 404, { "content-type": "application/json" });
      const result = isKnown ? (secrets as string[]).map((name) => ({ name, type: "secret_text" })) : null;
      response.end(JSON.stringify({ success: isKnown, errors: isKnown ? [] : [error], messages: [], result }));
    });
    await once(platform.listen(0, "127.0.0.1"), "listening");
  });
  beforeEach(() => {
    asked = [];
    secrets = [];
  });
  afterAll(async () => {
    platform.close();
    await rm(dir, { recursive: true, force: true });
  });

  async function deploy(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    const { port } = platform.address() as AddressInfo;
    const child = spawn(process.execPath, [join(PROJECT_DIR, "scripts/deploy.ts"), ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        CI: "1",
        HOME: dir, // no login of whoever runs the tests
        XDG_CONFIG_HOME: dir,
        CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}/client/v4`,
        CLOUDFLARE_API_TOKEN: secrets === "not logged in" ? "" : "token",
        CLOUDFLARE_ACCOUNT_ID: "account",
      },
    });
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return { code, out, err };
  }

  it("refuses the configuration as it is shipped, which is one for loopback", async () => {
    expect(await deploy()).toMatchObject({ code: 1, err: expect.stringMatching(/^AUDIENCE names http:\/\/127/) });
    expect(asked).toEqual([]);
  });

  it("runs dry without network, through to wrangler's own list of bindings", async () => {
    const { code, out, err } = await deploy("--dry-run", "--var", `AUDIENCE:${AUDIENCE}`);
    expect({ code, err }, out).toEqual({ code: 0, err: expect.stringContaining("whether ADMIN_KEYS is a secret") });
    for (const binding of ["IDENTITIES", "DIRECTORY", "BRAKE_ADDRESS", "BRAKE_KEY", 'ADMISSION ("join")']) {
      expect(out).toContain(`env.${binding}`);
    }
    expect(out).toContain("Nothing was uploaded. Next: ");
    expect(asked).toEqual([]);
  });

  it.each([["no such Worker" as const], [[] as string[]]])(
    "uploads nothing that nobody could be invited to (secrets: %j)",
    async (known) => {
      secrets = known;
      const { code, err } = await deploy("--var", `AUDIENCE:${AUDIENCE}`);
      expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/^ADMISSION=join without ADMIN_KEYS/) });
      expect(asked).toEqual(["GET /client/v4/accounts/account/workers/scripts/interlink-edge/secrets"]);
    },
  );

  it("says so if it cannot know", async () => {
    secrets = "not logged in";
    const { code, err } = await deploy("--var", `AUDIENCE:${AUDIENCE}`);
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining("could not be listed") });
    expect(asked).toEqual([]);
  });

  it.each([
    ["a.json", JSON.stringify({ ADMIN_KEYS: KEY })],
    [".env", `# admin\nADMIN_KEYS=${KEY}\n`],
  ])("takes the key from a file of secrets that goes with it (%s)", async (name, content) => {
    const path = join(dir, name);
    await writeFile(path, content);
    const { code, err } = await deploy("--dry-run", "--var", `AUDIENCE:${AUDIENCE}`, "--secrets-file", path);
    expect({ code, err }).toEqual({ code: 0, err: "" });
  });
}, 60_000);
