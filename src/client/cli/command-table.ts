/** PURE. Every command with its words, as the usage shows it and the command line takes it. */

/** What may stand behind a command, beside `--json` and `--help`. */
export const OPTIONS = {
  as: { type: "string", value: "PETNAME", says: "what to call them" },
  yes: { type: "boolean", says: "does it without asking" },
  port: { type: "string", value: "PORT", says: "where it listens (9440)" },
  "persist-to": { type: "string", value: "DIR", says: "where it keeps its state, instead of the usual folder" },
  host: { type: "string", value: "NAME", says: "only this host; may be given several times", multiple: true },
  remove: { type: "boolean", says: "takes back what setup wrote into hosts' files" },
  name: { type: "string", value: "NAME", says: "what we call ourselves" },
  "admin-key": { type: "string", value: "FILE", says: "the key by which the bus lets us invite, if it is not our own" },
  session: { type: "string", value: "ID", says: "to this session of theirs, by its id or a beginning of it" },
  take: { type: "boolean", says: "marks what it shows as read, and fetches what no agent has" },
  anyway: { type: "boolean", says: "also where a bus does not answer: what that one has of us stays there" },
  "with-key": { type: "boolean", says: "also the private key: who has the output is you" },
} as const;
export type OptionName = keyof typeof OPTIONS;

export interface Usage {
  readonly words: string;
  /** What follows them; in brackets what may be missing. */
  readonly args: readonly string[];
  readonly options: readonly OptionName[];
  readonly says: string;
  /** What `--help` says beside it. */
  readonly more?: string;
}

export const COMMANDS = [
  {
    words: "setup",
    args: ["[INVITE-OR-URL]"],
    options: ["name", "as", "host", "yes", "remove"],
    says: "makes our key, joins a bus, and tells the hosts of this machine",
    more: `It shows what it will write where, and asks. A second time it changes nothing; --remove leaves every file of a host
as it was. With an invite it also makes the one who invites a peer, and our agents knock at them by themselves.
Without an argument it is the bus of before, or the one that \`interlink-edge bus start\` runs.`,
  },
  {
    words: "bus start",
    args: [],
    options: ["port", "persist-to"],
    says: "runs a bus on this machine, until Ctrl-C",
    more: "Only this machine reaches it, and it admits everybody who does.",
  },
  {
    words: "invite",
    args: [],
    options: ["name", "admin-key"],
    says: "makes an invite for one person: a string for their `setup`",
    more: `Whoever has it may use it, once. Where the bus admits only who was invited, an admin key makes it, and it is good for a day.`,
  },
  {
    words: "status",
    args: [],
    options: [],
    says: "who we are, the bus, what wakes our agents, what is unread, which hosts are set up",
  },
  {
    words: "doctor",
    args: [],
    options: [],
    says: "checks all of it, with a message to ourselves, and says what mends it",
    more: "Ends with 0 if all is well, 5 if there are warnings alone, 1 if there are errors.",
  },
  { words: "discover", args: ["[PEER]"], options: [], says: "who is there" },
  {
    words: "send",
    args: ["PEER", "[TEXT]"],
    options: ["session"],
    says: "writes to a peer; without TEXT what stdin says",
    more: "It is written as our identity and as no session, so the answer goes to whichever agent of ours is there.",
  },
  {
    words: "inbox",
    args: [],
    options: ["take"],
    says: "what our agents have not read yet",
    more: `It looks into the files on this machine and marks nothing. With --take it also fetches from the bus what came for the
identity and no agent has; sessions that run keep theirs.`,
  },
  { words: "watch", args: [], options: [], says: "who comes and goes and what arrives, until Ctrl-C" },
  { words: "pair list", args: [], options: [], says: "who knocks, with the names that they claim" },
  { words: "pair accept", args: ["FINGERPRINT"], options: ["as", "yes"], says: "makes one who knocked a peer" },
  { words: "pair reject", args: ["FINGERPRINT"], options: ["yes"], says: "turns one away" },
  { words: "peers list", args: [], options: [], says: "who is trusted" },
  { words: "peers add", args: ["PETNAME", "KEY"], options: ["yes"], says: "trusts a key that you were given" },
  { words: "peers remove", args: ["PETNAME"], options: ["yes"], says: "ends the trust in a peer" },
  { words: "budget", args: [], options: [], says: "how often agents may still wake and reply by themselves" },
  { words: "budget lift", args: ["[PETNAME]"], options: ["yes"], says: "lets them go on, with one peer or with all" },
  { words: "key", args: [], options: [], says: "our key and its fingerprint" },
  {
    words: "export",
    args: [],
    options: ["with-key"],
    says: "everything that is kept here, as lines of JSON",
    more: "What is kept of other keys, and what cannot be read, is named beside it, with the command that shows it.",
  },
  {
    words: "forget",
    args: [],
    options: ["yes", "anyway"],
    says: "removes every trace of us from our buses, then from this machine",
    more: `Peers have to pair anew with whoever we are then. Run \`interlink-edge setup --remove\` first. If a bus does not answer, nothing
is removed here, for without the key it takes no word; --anyway removes it. What stays is named, and why.`,
  },
  { words: "mcp", args: [], options: [], says: "serves the tools over stdio, for an MCP host" },
] as const satisfies readonly Usage[];
export type Words = (typeof COMMANDS)[number]["words"];

export const EXIT_CODES = `Exit codes: 0 done · 1 refused, or not done · 2 not understood · 3 Node is too old · 4 the bus did not answer, so it
is not known whether it was done · 5 doctor has warnings alone`;

const VARIABLES = `INTERLINK_URL      the bus: its name in buses.json, or its addresses (the first there, else http://127.0.0.1:9440)
INTERLINK_NAME     what we call ourselves on the roster (the key's fingerprint)
INTERLINK_SESSION  id of this session (the host's own, else a random one)
INTERLINK_KEY      path of the key, instead of the usual one
INTERLINK_PEERS    path of the peers file, instead of the usual one`;

const WIDTH = 60;

function callOf({ words, args, options }: Usage): string {
  const flags = options.map((name) => {
    const option = OPTIONS[name];
    const flag = "value" in option ? `--${name} ${option.value}` : `--${name}`;
    return words === "pair accept" && name === "as" ? flag : `[${flag}]`;
  });
  return ["interlink-edge", words, ...args, ...flags].join(" ");
}

/** All commands, a line each. */
export function usage(): string {
  const lines = COMMANDS.map((command) => `${callOf({ ...command, options: [] }).padEnd(WIDTH - 12)}${command.says}`);
  return `${lines.join("\n")}
interlink-edge COMMAND --help | --help | --version

Each takes --json. What changes trust, lifts a budget, writes a host's file or forgets asks first; without a terminal it
needs --yes.

${EXIT_CODES}

${VARIABLES}
`;
}

/** One command in full. */
export function usageOf(wanted: Words): string {
  const command: Usage = COMMANDS.find(({ words }) => words === wanted)!;
  const options = command.options.map((name) => {
    const option = OPTIONS[name];
    return `  ${("value" in option ? `--${name} ${option.value}` : `--${name}`).padEnd(18)} ${option.says}`;
  });
  const said = command.says.charAt(0).toUpperCase() + command.says.slice(1);
  return [
    callOf(command),
    "",
    `${said}.`,
    ...(command.more === undefined ? [] : [command.more]),
    "",
    ...options,
    `  ${"--json".padEnd(18)} answers in JSON`,
    "",
    EXIT_CODES,
    "",
  ].join("\n");
}
