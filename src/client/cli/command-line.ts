/** PURE. What was typed, as a command, or why it is none. */

import { parseArgs } from "node:util";
import { COMMANDS, OPTIONS, type OptionName, type Usage, type Words } from "./command-table.ts";
import { HOOKS, type Hook } from "../wake/hooks.ts";

export type Command = CommandOf & { readonly json?: true };

type CommandOf =
  | { readonly run: "help"; readonly of?: Words }
  | { readonly run: "version" }
  /** Of the supervisor's own and of hosts' hooks, so the usage names none of them. */
  | { readonly run: "agent" | "wait" }
  | { readonly run: "hook"; readonly hook?: Hook }
  | { readonly run: "mcp" }
  | { readonly run: "key" | "status" | "doctor" | "watch" | "pair list" | "peers list" | "budget" }
  | SetupCommand
  | { readonly run: "bus start"; readonly port?: number; readonly persistTo?: string }
  | { readonly run: "invite"; readonly name?: string; readonly adminKey?: string }
  | { readonly run: "discover"; readonly peer?: string }
  | { readonly run: "send"; readonly peer: string; readonly text?: string; readonly session?: string }
  | { readonly run: "inbox"; readonly take: boolean }
  | { readonly run: "pair accept"; readonly request: string; readonly petname: string; readonly yes: boolean }
  | { readonly run: "pair reject"; readonly request: string; readonly yes: boolean }
  | { readonly run: "peers add"; readonly petname: string; readonly key: string; readonly yes: boolean }
  | { readonly run: "peers remove"; readonly peer: string; readonly yes: boolean }
  | { readonly run: "budget lift"; readonly peer?: string; readonly yes: boolean }
  | { readonly run: "export"; readonly withKey: boolean }
  | { readonly run: "forget"; readonly yes: boolean; readonly anyway: boolean };

export interface SetupCommand {
  readonly run: "setup";
  /** An invite or an address; absent: the bus of before. */
  readonly target?: string;
  /** Names of hosts; none: every one that is found. */
  readonly hosts: readonly string[];
  readonly name?: string;
  readonly as?: string;
  readonly yes: boolean;
  readonly remove: boolean;
}

export type CommandRun<Run extends Command["run"]> = Extract<CommandOf, { readonly run: Run }>;

type Wrong = { readonly wrong: string };
type Values = Partial<Record<string, string | boolean | readonly string[]>>;

const PORT_MAX = 65_535;
/** A whole key that begins with a dash: one in 64 does, and is no option. */
const DASHED_KEY = /^-[\w-]{42}$/;
/** Stands in no argument. */
const MARK = "\0";
const SHARED = {
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "V" },
} as const;

/** Reads the arguments that follow the program's name. */
export function readCommand(args: readonly string[]): Command | Wrong {
  // Never wrong: by the code for that a host would hold its user's prompt back.
  if (args[0] === "hook") return hookOf(args[1]);
  let parsed;
  try {
    const marked = args.map((arg) => (DASHED_KEY.test(arg) ? MARK + arg : arg));
    parsed = parseArgs({ args: marked, allowPositionals: true, options: { ...OPTIONS, ...SHARED } });
  } catch (fault) {
    // Node says in its first sentence what is wrong.
    return { wrong: fault instanceof Error ? fault.message : String(fault) };
  }
  const { values } = parsed;
  const positionals = parsed.positionals.map((arg) => arg.replace(MARK, ""));
  const { json, help, version, ...given } = values;
  const [group = "", verb] = positionals;
  // The longest words first: `budget lift` is no `budget` with an argument.
  const usage = [`${group} ${verb ?? ""}`, group]
    .map((words) => COMMANDS.find((each) => each.words === words))
    .find(Boolean);
  if (help) return usage ? { run: "help", of: usage.words } : { run: "help" };
  if (version) return { run: "version" };
  if ((group === "agent" || group === "wait") && positionals.length === 1) return { run: group };
  const none = positionals.length === 0 ? "Which command?" : "There is no such command, or its words are wrong.";
  if (!usage) return { wrong: none };
  const rest = positionals.slice(usage.words.split(" ").length);
  const wrong = misfit(usage, rest, Object.keys(given));
  if (wrong !== undefined) return { wrong };
  const command = commandOf(usage.words, rest, given);
  return "wrong" in command || !json ? command : { ...command, json: true };
}

function hookOf(name: string | undefined): Command {
  const hook = HOOKS.find((each) => each === name);
  return { run: "hook", ...(hook !== undefined && { hook }) };
}

function misfit(usage: Usage, rest: readonly string[], given: readonly string[]): string | undefined {
  const needed = usage.args.filter((arg) => !arg.startsWith("["));
  if (rest.length < needed.length || rest.length > usage.args.length)
    return "There is no such command, or its words are wrong.";
  const stray = given.find((name) => !usage.options.includes(name as OptionName));
  return stray === undefined ? undefined : `\`${usage.words}\` takes no --${stray}.`;
}

function commandOf(run: Words, [first = "", second]: readonly string[], values: Values): Command | Wrong {
  const yes = values["yes"] === true;
  const name = textOf("name", values);
  const as = textOf("as", values);
  switch (run) {
    case "setup":
      return {
        run,
        hosts: (values["host"] ?? []) as readonly string[],
        yes,
        remove: values["remove"] === true,
        ...(first !== "" && { target: first }),
        ...name,
        ...as,
      };
    case "bus start": {
      const port = values["port"] === undefined ? undefined : Number(values["port"]);
      if (port !== undefined && !(Number.isInteger(port) && port >= 1 && port <= PORT_MAX))
        return { wrong: `--port takes a number from 1 to ${PORT_MAX}.` };
      const persistTo = values["persist-to"] as string | undefined;
      return { run, ...(port !== undefined && { port }), ...(persistTo !== undefined && { persistTo }) };
    }
    case "invite": {
      const adminKey = values["admin-key"] as string | undefined;
      return { run, ...name, ...(adminKey !== undefined && { adminKey }) };
    }
    case "discover":
      return { run, ...(first !== "" && { peer: first }) };
    case "send":
      return { run, peer: first, ...(second !== undefined && { text: second }), ...textOf("session", values) };
    case "inbox":
      return { run, take: values["take"] === true };
    case "pair accept":
      if (as.as === undefined) return { wrong: "Say what to call them: --as PETNAME." };
      return { run, request: first, petname: as.as, yes };
    case "pair reject":
      return { run, request: first, yes };
    case "peers add":
      return { run, petname: first, key: second!, yes };
    case "peers remove":
      return { run, peer: first, yes };
    case "budget lift":
      return { run, yes, ...(first !== "" && { peer: first }) };
    case "export":
      return { run, withKey: values["with-key"] === true };
    case "forget":
      return { run, yes, anyway: values["anyway"] === true };
    default:
      return { run };
  }
}

/** The option under its own name, or nothing. */
function textOf<Name extends string>(name: Name, values: Values): { readonly [Key in Name]?: string } {
  const value = values[name];
  return (typeof value === "string" ? { [name]: value } : {}) as { readonly [Key in Name]?: string };
}
