/**
 * `interlink-edge setup`: from nothing to an agent on a bus. It looks at everything first, shows what it would do, asks
 * once, and then does it in an order that a second run completes.
 */

import { fingerprint } from "../../protocol/address.ts";
import { isName } from "../../protocol/schema.ts";
import { parseBusUrl, type BusUrl, type BusUrlRefusalCode } from "../bus/bus-url.ts";
import { isOk } from "../bus/outcome.ts";
import { HOSTS } from "../hosts/all.ts";
import type { Host } from "../hosts/host.ts";
import { quoted } from "../tools/escape.ts";
import { addPeer } from "../trust/peer-book.ts";
import { INVITE_PREFIX, parseInvite, type InviteRefusal, type InviteText } from "../trust/invite-text.ts";
import { Operator } from "../trust/operator.ts";
import { askerAt, refuseOutcome, type Asker } from "./asker.ts";
import { keyNamedFor, nameBus } from "./bus-names.ts";
import type { CommandRun } from "./command-line.ts";
import type { Desk } from "./desk.ts";
import { applyPlan, planWrites, takeAllBack, wordsOfTrouble, type Plan } from "./host-files.ts";
import { keepAndKnock, trustInviter } from "./invited.ts";
import { placeOf } from "./machine.ts";
import { copyProgram, entryOf, ownProgram, removeProgram } from "./own-program.ts";
import { readRecord, recordPath, writeRecord, type SetupRecord } from "./setup-record.ts";
import { agrees, refuse, report, type ExitCode } from "./terminal.ts";
import { wordsOfFile, wordsOfPeers, wordsOfSession } from "./words.ts";

type SetupCommand = CommandRun<"setup">;

export async function setUp(desk: Desk, command: SetupCommand): Promise<ExitCode> {
  const { terminal, keyPath } = desk;
  const path = recordPath(keyPath);
  const record = readRecord(path);
  if ("refused" in record) return refuse(terminal, wordsOfFile(record), record.refused);
  const keep = (next: SetupRecord): void => {
    const refusal = writeRecord(path, next);
    if (refusal) throw new Error(wordsOfFile(refusal));
  };
  if (command.remove) return remove(desk, command, record, keep);
  const hosts = hostsOf(desk, command);
  if (typeof hosts === "number") return hosts;
  if (command.name !== undefined && !isName(command.name))
    return refuse(terminal, "a name is 1 to 64 bytes of visible text", "bad_name");
  const target = targetOf(desk, command.target);
  if (typeof target === "number") return target;
  return join(desk, command, { record, keep, hosts, ...target });
}

interface Work {
  readonly record: SetupRecord;
  readonly keep: (record: SetupRecord) => void;
  readonly hosts: readonly Host[];
  readonly url: BusUrl;
  /** False if it is the bus of before: then its name stays as it is. */
  readonly isGiven: boolean;
  readonly invite?: InviteText;
}

async function join(desk: Desk, command: SetupCommand, work: Work): Promise<ExitCode> {
  const { terminal, machine, identity, me, peers, settings } = desk;
  const { record, keep, hosts, url, invite, isGiven } = work;
  const asker = askerAt(url.origin, "public", identity, peers);
  const otherKey = isGiven ? keyNamedFor(settings.buses, url) : undefined;
  if (otherKey !== undefined)
    return refuse(
      terminal,
      `${settings.buses} names another key for this bus: ${otherKey}; INTERLINK_KEY sets it up as that`,
      "other_key",
    );
  const admitted = await isAdmitted(desk, asker, invite);
  if (typeof admitted === "number") return admitted;

  const petname = command.as ?? invite?.name ?? "";
  const book = peers.current();
  if ("refused" in book) return refuse(terminal, wordsOfPeers(book), book.refused);
  const isNewPeer = invite !== undefined && !book.petnames.has(invite.key);
  const change = isNewPeer ? addPeer(book, petname, invite.key, me) : undefined;
  if (change && "refused" in change)
    return refuse(
      terminal,
      `${wordsOfPeers(change)}; choose what to call who invites you: --as PETNAME`,
      change.refused,
    );

  const name = command.name ?? settings.name ?? record.name;
  const program = ownProgram(machine, settings.data);
  const plans = planWrites(hosts, placeOf(machine), entryOf(machine, program.script, name), record);
  const writes = plans.filter((plan) => plan.state === "write");
  const isQuiet = !isNewPeer && admitted.isThere && writes.length === 0;
  const shown = [
    `Bus: ${url.origin}`,
    `You: ${fingerprint(me)}`,
    ...(isNewPeer ? inviterLines(invite, petname) : []),
    ...plans.flatMap(planLines),
  ];
  if (isQuiet) for (const line of shown) terminal.err(line);
  else if (!(await agrees(terminal, { shown: [...shown, "Do this?"], yes: command.yes }))) return 1;

  if (!admitted.isThere && invite?.token !== undefined) {
    const joined = await asker.http.join(invite.token);
    if (!isOk(joined)) return refuseOutcome(terminal, joined, url);
  }
  if (isNewPeer) {
    // They have just agreed to this key, under this name.
    const trusted = await trustInviter(desk, asker, invite, petname, Operator.attest(invite.key, "cli"));
    if (trusted !== 0) return trusted;
    await keepAndKnock(desk, asker, invite, name ?? fingerprint(me));
  }
  const named = isGiven ? nameBus(settings.buses, url) : undefined;
  if (named && "refused" in named)
    return refuse(terminal, wordsOfSession({ refused: "buses_file", why: named }), named.refused);
  if (writes.length > 0) copyProgram(program);
  let left: SetupRecord = {
    ...record,
    ...(name !== undefined && { name }),
    ...(program.copy && { program: program.copy.to }),
  };
  if (writes.length > 0 || name !== record.name) keep(left);
  const results = plans.map((plan) => {
    const applied = applyPlan(plan, left, keep);
    if (typeof applied === "string") return { plan, trouble: applied };
    left = applied;
    return { plan };
  });
  return tell(desk, { url, results, ...(isNewPeer && { peer: petname }) });
}

function tell(
  { terminal, me }: Desk,
  done: { readonly url: BusUrl; readonly results: readonly { plan: Plan; trouble?: string }[]; readonly peer?: string },
): ExitCode {
  const { url, results, peer } = done;
  const hosts = results.map(({ plan, trouble }) => {
    const { host, write } = plan;
    const state = trouble === undefined ? (plan.state === "same" ? "unchanged" : "written") : trouble;
    return { host: host.name, path: write.path, state };
  });
  const troubles = results.filter(({ trouble }) => trouble !== undefined);
  const lines = hosts
    .filter(({ state }) => state === "written" || state === "unchanged")
    .map(
      ({ host, path, state }) =>
        `${titleOf(host)}: ${path} ${state === "written" ? "was written" : "is as it should be"}.`,
    );
  const said = { bus: url.origin, key: me, fingerprint: fingerprint(me), hosts, ...(peer !== undefined && { peer }) };
  report(terminal, said, [`On the bus at ${url.origin} as ${fingerprint(me)}.`, ...lines]);
  for (const { plan, trouble } of troubles) terminal.err(`${plan.write.path} ${wordsOfTrouble(trouble as never)}.`);
  if (results.length === 0)
    terminal.err(
      `No host was found on this machine. --host writes for one all the same: ${HOSTS.map(({ name }) => name).join(", ")}.`,
    );
  else if (hosts.some(({ state }) => state === "written")) terminal.err("Start the hosts anew, so that they read it.");
  const fresh = results.filter(({ plan }) => plan.state === "write").map(({ plan }) => plan.host);
  for (const { note } of new Set(fresh)) if (note !== undefined) terminal.err(note);
  terminal.err(
    peer === undefined
      ? "Next: `interlink-edge invite` makes a string for somebody else's `interlink-edge setup`."
      : `Next: your agents knock at ${quoted(peer)} by themselves. Their human types \`interlink-edge pair list\`, compares ${fingerprint(me)} with you, and accepts.`,
  );
  return troubles.length > 0 ? 1 : 0;
}

function inviterLines({ key, name }: InviteText, petname: string): string[] {
  return [
    `You were invited by ${quoted(name)} (their own claim), ${fingerprint(key)}: compare it with them by another way.`,
    `They would be your peer ${quoted(petname)}: their messages would reach your agent from then on.`,
  ];
}

function planLines(plan: Plan): string[] {
  const { host, write } = plan;
  if (plan.state === "same") return [`${host.title}: ${write.path} has ${write.what} already.`];
  if (plan.state === "trouble") return [`${host.title}: ${write.path} ${wordsOfTrouble(plan.trouble)}.`];
  const lines = write.edit.shown.split("\n").map((line) => `    ${line}`);
  return [
    `${host.title}: ${write.what} goes into ${write.path}${plan.before === undefined ? ", a new file" : ""}:`,
    ...lines,
  ];
}

const titleOf = (name: string): string => HOSTS.find((host) => host.name === name)!.title;

/** Those named, else those that are found. */
function hostsOf({ terminal, machine }: Desk, { hosts }: SetupCommand): readonly Host[] | ExitCode {
  const unknown = hosts.find((name) => !HOSTS.some((host) => host.name === name));
  if (unknown !== undefined)
    return refuse(
      terminal,
      `there is no host ${quoted(unknown)}; there are ${HOSTS.map(({ name }) => name).join(", ")}`,
      "unknown_host",
      2,
    );
  const place = placeOf(machine);
  return HOSTS.filter((host) => (hosts.length > 0 ? hosts.includes(host.name) : host.isFound(place)));
}

function targetOf(
  { terminal, home, me }: Desk,
  target: string | undefined,
): { readonly url: BusUrl; readonly isGiven: boolean; readonly invite?: InviteText } | ExitCode {
  if (target === undefined) {
    if ("refused" in home) return refuse(terminal, wordsOfSession(home), home.refused);
    const url = parseBusUrl(home.bus.split(",")[0]!, { allowPrivate: home.profile === "private" });
    return "refusal" in url ? refuse(terminal, URL_FAULTS[url.refusal], url.refusal) : { url, isGiven: false };
  }
  if (!target.trimStart().startsWith(INVITE_PREFIX)) {
    const url = parseBusUrl(target.trim());
    return "refusal" in url ? refuse(terminal, URL_FAULTS[url.refusal], url.refusal) : { url, isGiven: true };
  }
  const invite = parseInvite(target);
  if ("refused" in invite) return refuse(terminal, wordsOfInvite(invite), invite.refused);
  if (invite.key === me) return refuse(terminal, "that is our own invite; it is for somebody else", "own_key");
  return { url: invite.bus, isGiven: true, invite };
}

/** Asks before anything is changed: a mistyped address is to leave nothing behind. */
async function isAdmitted(
  { terminal, me }: Desk,
  { http, url }: Asker,
  invite: InviteText | undefined,
): Promise<{ readonly isThere: boolean } | ExitCode> {
  const seen = await http.rosterOf(me);
  if (isOk(seen)) return { isThere: true };
  if (!("refused" in seen) || seen.refused !== "not_admitted") return refuseOutcome(terminal, seen, url);
  if (invite?.token !== undefined) return { isThere: false };
  return refuse(
    terminal,
    `the bus at ${url.origin} admits only who was invited; ask who runs it for an invite`,
    "not_admitted",
  );
}

async function remove(
  { terminal, machine }: Desk,
  { hosts, yes }: SetupCommand,
  record: SetupRecord,
  keep: (record: SetupRecord) => void,
): Promise<ExitCode> {
  const place = placeOf(machine);
  const isMeant = ({ host }: { readonly host: string }) => hosts.length === 0 || hosts.includes(host);
  const meant = { ...record, writes: record.writes.filter(isMeant) };
  const others = record.writes.filter((written) => !isMeant(written));
  if (meant.writes.length === 0) {
    report(terminal, { restored: [] }, ["Setup has written nothing that is still there."]);
    return 0;
  }
  const shown = [
    ...meant.writes.map(({ host, path, what }) => `${titleOf(host)}: ${what} goes out of ${path}.`),
    "Do this?",
  ];
  if (!(await agrees(terminal, { shown, yes }))) return 1;
  const { record: left, done } = takeAllBack(meant, place, (next) =>
    keep({ ...next, writes: [...others, ...next.writes] }),
  );
  const restored = done.filter(([, outcome]) => outcome === "restored" || outcome === "gone");
  const troubles = done.filter(([, outcome]) => outcome !== "restored" && outcome !== "gone");
  if (left.writes.length + others.length === 0) {
    if (record.program !== undefined) removeProgram(record.program);
    keep({ writes: [] });
  }
  report(
    terminal,
    { restored: restored.map(([{ path }]) => path), left: troubles.map(([{ path }, why]) => ({ path, why })) },
    restored.map(([{ path }, outcome]) =>
      outcome === "gone" ? `${path} did not have it any more.` : `${path} is as it was.`,
    ),
  );
  for (const [{ path }, why] of troubles) terminal.err(`${path} ${wordsOfTrouble(why as never)}.`);
  terminal.err("The key, the peers and the named buses stay; `interlink-edge forget` removes them.");
  return troubles.length > 0 ? 1 : 0;
}

const URL_FAULTS: Readonly<Record<BusUrlRefusalCode, string>> = {
  not_a_url: "that is neither an invite nor an address: https://HOST, or http://127.0.0.1:PORT on this machine",
  userinfo: "the address has a name or password in it; an address is https://HOST alone",
  not_an_origin: "the address has a path; an address is https://HOST alone",
  not_https: "a bus beyond this machine is reached by https only",
  bad_host: "the host of the address ends in a dot",
  private_address:
    "the address is one of a private network; who means it names the bus in buses.json, with its profile",
};

function wordsOfInvite(refusal: InviteRefusal): string {
  switch (refusal.refused) {
    case "not_an_invite":
      return "that is no invite";
    case "damaged":
      return "the invite is damaged: copy the whole of it";
    case "newer_version":
      return "the invite was made by a newer version; install that";
    case "bad_content":
      return "the invite says what none of ours says, so it is not used";
    case "bad_bus":
      return `the invite leads to no bus that may be used: ${URL_FAULTS[refusal.why]}`;
  }
}
