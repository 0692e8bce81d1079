/**
 * `npm run deploy`: `wrangler deploy`, after the checks that a bus on the public internet must pass. They are made
 * here because a Worker with a wrong setting uploads well and then answers nobody, or anybody.
 *
 * Arguments are wrangler's own and go on to it; the few that say what the bus will be are read here.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { parseEnv } from "node:util";
import { readSettings, SettingsFault } from "../src/durable/settings.ts";
import { isLoopback, PROJECT_DIR } from "./local-bus.ts";

/** What is to be deployed, as far as it can be seen from here. */
export interface Deployment {
  /** As the Worker will read them: of the configuration, of `--var`, of `--secrets-file`. */
  readonly vars: Readonly<Record<string, string>>;
  /** Names of the secrets that the Worker already has; undefined if nobody asked the platform. */
  readonly secrets?: ReadonlySet<string>;
}

/** Arguments that concern the checks. */
interface Flags {
  readonly isDryRun: boolean;
  /** Says what it does and deploys nothing, so there is nothing to check. */
  readonly isHelp: boolean;
  readonly vars: Readonly<Record<string, string>>;
  readonly config?: string;
  readonly env?: string;
  readonly secretsFile?: string;
  /** Those that choose the Worker, for another command about it. */
  readonly chooses: readonly string[];
}

const SHORT: Readonly<Record<string, string>> = { c: "config", e: "env", h: "help" };
const CHOOSING = ["config", "env", "env-file", "name", "profile"];

/** A sentence why this must not be deployed, or undefined. */
export function objection({ vars, secrets }: Deployment): string | undefined {
  const audiences = listOf(vars["AUDIENCE"]);
  const near = audiences.find((origin) => isLoopback(origin) || URL.parse(origin)?.hostname === "0.0.0.0");
  if (audiences.length === 0 || near !== undefined) {
    const is = near === undefined ? "is empty" : `names ${near}, which is whatever machine a client runs on`;
    return `AUDIENCE ${is}: give the deployment's own origin, --var AUDIENCE:https://NAME.SUBDOMAIN.workers.dev or [vars] in wrangler.toml.`;
  }
  const plain = audiences.find((origin) => origin.startsWith("http:"));
  if (plain !== undefined) return `AUDIENCE names ${plain}: mail would cross the network in the clear; use https.`;
  if (vars["ACCESS"]?.trim() === "open") {
    return "ACCESS=open lets anyone read and write as anybody, so it is for loopback alone: leave it out.";
  }
  if ((vars["HOSTS"] ?? "").trim() !== "") {
    return "HOSTS marks a bus on one machine and turns the platform's rate limits off: leave it out.";
  }
  const settings = settingsOrSentence(vars);
  if (typeof settings === "string") return settings;
  const isInvitable = settings.adminKeys.size > 0 || secrets?.has("ADMIN_KEYS") === true;
  if (settings.admission === "join" && secrets !== undefined && !isInvitable) {
    return (
      "ADMISSION=join without ADMIN_KEYS: nobody could invite, so nobody could come in. " +
      "Make a key with `npm run invite -- --new-key FILE`, then give --var ADMIN_KEYS:KEY, " +
      "[vars] in wrangler.toml, or a secret: --secrets-file FILE, or `wrangler secret put ADMIN_KEYS`."
    );
  }
  return undefined;
}

/** The Worker's own reading of its variables: what it would not start with, it is not deployed with. */
function settingsOrSentence(vars: Deployment["vars"]): ReturnType<typeof readSettings> | string {
  try {
    return readSettings(vars);
  } catch (fault) {
    if (fault instanceof SettingsFault) return fault.message;
    throw fault;
  }
}

/** Whether only the platform can tell that somebody may invite. */
export function mustAskForSecrets({ vars }: Deployment): boolean {
  const settings = readSettings(vars);
  return settings.admission === "join" && settings.adminKeys.size === 0;
}

/** Wrangler takes `--flag value`, `--flag=value` and, for variables, several values after one `--var`. */
export function readFlags(args: readonly string[]): Flags {
  const values = new Map<string, string[]>();
  const chooses: string[] = [];
  let flag = "";
  for (const arg of args) {
    const [, long, short, value] = /^(?:--([^=]+)|-(\w))(?:=(.*))?$/s.exec(arg) ?? [];
    const name = long ?? (short === undefined ? undefined : (SHORT[short] ?? short));
    if (name !== undefined) values.set((flag = name), values.get(name) ?? []);
    const text = name === undefined ? arg : value;
    if (text !== undefined) values.get(flag)?.push(text);
    if (CHOOSING.includes(flag)) chooses.push(arg);
  }
  const last = (name: string): string | undefined => values.get(name)?.at(-1);
  const isSet = (name: string): boolean => values.has(name) && last(name) !== "false";
  const config = last("config");
  const env = last("env");
  const secretsFile = last("secrets-file");
  return {
    isDryRun: isSet("dry-run"),
    isHelp: isSet("help"),
    vars: Object.fromEntries(
      (values.get("var") ?? []).map((pair) => {
        const colon = pair.indexOf(":");
        return [pair.slice(0, colon), pair.slice(colon + 1)];
      }),
    ),
    ...(config === undefined ? {} : { config }),
    ...(env === undefined ? {} : { env }),
    ...(secretsFile === undefined ? {} : { secretsFile }),
    chooses,
  };
}

/** The variables that the Worker will have, without those that the platform alone knows. */
async function readVars({ vars, config, env, secretsFile }: Flags): Promise<Record<string, string>> {
  const { unstable_readConfig: readConfig } = await import("wrangler");
  const path = resolve(PROJECT_DIR, config ?? "wrangler.toml");
  const configured = readConfig({ config: path, ...(env === undefined ? {} : { env }) }, { hideWarnings: true }).vars;
  return {
    ...Object.fromEntries(Object.entries(configured).map(([name, value]) => [name, String(value)])),
    ...vars,
    ...(secretsFile === undefined ? {} : await readSecrets(resolve(PROJECT_DIR, secretsFile))),
  };
}

/** JSON or the lines of an .env file, as wrangler takes them. */
async function readSecrets(path: string): Promise<Record<string, string>> {
  const text = await readFile(path, "utf8");
  return text.trimStart().startsWith("{")
    ? (JSON.parse(text) as Record<string, string>)
    : (parseEnv(text) as Record<string, string>);
}

/** Names of the Worker's secrets; none if there is no such Worker yet. @throws if the platform does not say */
async function listSecrets(chooses: readonly string[]): Promise<ReadonlySet<string>> {
  // Not interactive: a login would hang behind a pipe.
  const child = runWrangler(["secret", "list", "--format", "json", ...chooses], ["ignore", "pipe", "pipe"]);
  const [out, err, [code]] = await Promise.all([textOf(child.stdout!), textOf(child.stderr!), once(child, "exit")]);
  if (code === 0) return new Set((JSON.parse(out) as { name: string }[]).map(({ name }) => name));
  if (/worker .*not found|10007/is.test(err)) return new Set();
  throw new Error(
    `${err.trim()}\n\nThe Worker's secrets could not be listed, so nobody here knows whether ADMIN_KEYS is one. ` +
      "Log in with `npx wrangler login`, or give --var ADMIN_KEYS:KEY.",
  );
}

function runWrangler(args: readonly string[], stdio: "inherit" | ["ignore", "pipe", "pipe"]) {
  const wrangler = join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "bin", "wrangler.js");
  return spawn(process.execPath, [wrangler, ...args], {
    cwd: PROJECT_DIR,
    stdio,
    env: {
      ...process.env,
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_SEND_ERROR_REPORTS: "false",
      WRANGLER_HIDE_BANNER: "true", // it would ask the registry for a newer version
      WRANGLER_NO_SKILLS_UPDATE_PROMPTS: "true",
      WRANGLER_LOG_PATH: join(PROJECT_DIR, ".interlink", "wrangler", "logs"),
    },
  });
}

/** What comes next, once wrangler is through. */
function nextStep(vars: Deployment["vars"], isDryRun: boolean): string {
  const [origin = ""] = listOf(vars["AUDIENCE"]);
  if (isDryRun) return "Nothing was uploaded. Next: the same without --dry-run.";
  return [
    `Next: ${origin}/health answers {"ok":true}; a new name may need some minutes until it does.`,
    readSettings(vars).admission === "join"
      ? `Then invite: npm run invite -- --key FILE --url ${origin}`
      : "ADMISSION=open: whoever finds this origin may use the bus.",
    "Sockets of the version before are closed, now or within minutes: clients dial again, and what was acknowledged is kept.",
  ].join("\n");
}

function listOf(value: string | undefined): string[] {
  return (value ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

async function main(args: readonly string[]): Promise<number> {
  const flags = readFlags(args);
  let vars: Deployment["vars"] = {};
  if (!flags.isHelp) {
    vars = await readVars(flags);
    let no = objection({ vars });
    if (no === undefined && mustAskForSecrets({ vars })) {
      if (flags.isDryRun) console.error("Not checked by a dry run: whether ADMIN_KEYS is a secret of the Worker.");
      else no = objection({ vars, secrets: await listSecrets(flags.chooses) });
    }
    if (no !== undefined) {
      console.error(no);
      return 1;
    }
  }
  const [code] = (await once(runWrangler(["deploy", ...args], "inherit"), "exit")) as [number | null];
  if (code === 0 && !flags.isHelp) console.log(nextStep(vars, flags.isDryRun));
  return code ?? 1;
}

if (import.meta.main) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (fault) {
    console.error((fault as Error).message);
    process.exitCode = 1;
  }
}
