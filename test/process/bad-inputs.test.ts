/** Every bad input is refused as the table says, over a real connection to a real process, and stores nothing. */

import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { loopbackHosts, startBus, type LocalBus, type Variables } from "../../scripts/local-bus.ts";
import { Agent, signerOf, type Answer, type Json, type Signer } from "../support/agent.ts";
import {
  mismatch,
  perform,
  prepare,
  type BadInput,
  type Cast,
  type Expectation,
  type Outcome,
  type PreStep,
} from "../support/bad-inputs.ts";

const CASES: readonly BadInput[] = JSON.parse(
  await readFile(join(import.meta.dirname, "../vectors/bad_inputs.json"), "utf8"),
);

const SEEDS = { A: 1, B: 2, C: 3, D: 4, E: 5, Z: 6, admin: 7 };
const seedOf = (who: keyof typeof SEEDS): Uint8Array => new Uint8Array(32).fill(SEEDS[who]);

/** The inboxes that the table's requests aim at. */
const INBOXES = [
  ["A", "s1"],
  ["B", "s2"],
  ["B", "s9"],
  ["C", "s3"],
] as const;

/** Holds `empty`, the state of a bus with A to E admitted and the contacts set, and copies of it. */
let template: string;
let cast: Cast;
let vars: Variables;

beforeAll(async () => {
  template = await mkdtemp(join(tmpdir(), "interlink-bad-inputs-"));
  const everyone = Object.keys(SEEDS) as (keyof typeof SEEDS)[];
  const signers: Record<string, Signer> = {};
  for (const who of everyone) signers[who] = await signerOf(seedOf(who));
  const keysOf = (...names: string[]) => names.map((who) => signers[who]!.key);
  vars = {
    ADMISSION: "join",
    ADMIN_KEYS: signers["admin"]!.key,
    SENDER_SHARE: "16",
    INBOX_MAX_MESSAGES: "64",
    SESSIONS_MAX: "16",
  };
  const bus = await startBus({ bundle: inject("bundle"), dir: join(template, "empty"), vars });
  const [a, b] = [await agentOf(bus, "A"), await agentOf(bus, "B")];
  cast = { signers, joinTokens: await admit(bus, [a, b]) };
  accepted(await a.contacts(keysOf("B")));
  accepted(await b.contacts(keysOf("A", "C", "D", "E")));
  await bus.stop();
});

/** Admits A to E, and makes an unused, an expired and an invented token. */
async function admit(bus: LocalBus, [a, b]: [Agent, Agent]): Promise<Cast["joinTokens"]> {
  const operator = await agentOf(bus, "admin");
  const invite = async (ttlMs: number) => accepted(await operator.invite(ttlMs));
  const expired = await invite(1);
  for (const agent of [a, b, ...(await Promise.all((["C", "D", "E"] as const).map((who) => agentOf(bus, who))))]) {
    accepted(await agent.join((await invite(60_000)).token));
  }
  while (accepted(await a.roster(a.key)).now_ms <= expired.expires_at_ms); // until the bus's clock has passed it
  return { JOIN: (await invite(3_600_000)).token, JOINOLD: expired.token, JOINGUESS: "A".repeat(43) };
}

afterAll(async () => {
  await unused?.stop();
  await rm(template, { recursive: true, force: true });
});

describe("a bad input is refused as the table says", () => {
  for (const bad of CASES) it(bad.name, () => runCase(bad));
});

/** A bus on which so far every case stored nothing, as was checked, so that it is still the empty one. */
let unused: LocalBus | undefined;

async function runCase(bad: BadInput): Promise<void> {
  const isAlone = bad.pre !== undefined || bad.profile !== undefined;
  const bus = (isAlone ? undefined : unused) ?? (await startEmptyBus(bad));
  if (!isAlone) unused = undefined;
  try {
    const own = prepare(bad, cast, bus.url);
    for (const step of bad.pre ?? []) {
      for (let i = 1; i <= timesOf(step); i++) {
        const outgoing = step.sameRequest ? own : prepare(step, cast, bus.url, i);
        const outcome = await perform(outgoing, bus.url, step.expect);
        assertExpected(outcome, step.expect, `step ${i} before it: `);
      }
    }
    assertExpected(await perform(own, bus.url, bad.expect), bad.expect);
    await expectNothingStored(bus, bad);
    if (!isAlone) unused = bus;
  } finally {
    if (unused !== bus) await bus.stop();
  }
}

/** Under the template's folder, so that it goes with it. */
async function startEmptyBus({ profile }: BadInput): Promise<LocalBus> {
  const dir = await mkdtemp(join(template, "case-"));
  await cp(join(template, "empty"), dir, { recursive: true });
  const varsFor = (port: number): Variables =>
    profile === "local-bus" ? { ...vars, HOSTS: loopbackHosts(port) } : vars;
  return startBus({ bundle: inject("bundle"), dir, vars: varsFor });
}

/** Beside what the steps before it stored, there is no mail, no session and no goodbye, and Z is no member. */
async function expectNothingStored(bus: LocalBus, bad: BadInput): Promise<void> {
  const count = (path: string): number =>
    (bad.pre ?? [])
      .filter((step) => (step.sameRequest ? bad.path : step.path) === path)
      .reduce((sum, step) => sum + timesOf(step), 0);
  const agents = { A: await agentOf(bus, "A"), B: await agentOf(bus, "B"), C: await agentOf(bus, "C") };

  let mail = 0;
  for (const [who, session] of INBOXES) {
    mail += accepted(await agents[who].recv({ session, timeoutMs: 0, max: 64 })).items?.length ?? 0;
  }
  expect(mail, "messages stored").toBe(count("/send"));

  let sessions = 0;
  for (const agent of Object.values(agents)) {
    const { roster, gone } = accepted(await agent.roster(agent.key));
    sessions += roster.length;
    expect(gone).toEqual([]);
  }
  expect(sessions, "sessions stored").toBe(count("/announce"));

  const z = await agentOf(bus, "Z");
  const isAdmitted = count("/join") > 0;
  expect((await z.roster(z.key)).status, "Z's roster").toBe(isAdmitted ? 200 : 403);
  for (const agent of [...Object.values(agents), z]) agent.close();
}

function assertExpected(outcome: Outcome, expected: Expectation, where = ""): void {
  const why = mismatch(outcome, expected);
  if (why !== undefined) expect.fail(where + why);
}

function timesOf(step: PreStep): number {
  return step.sameRequest ? 1 : (step.repeat ?? 1);
}

function agentOf(bus: LocalBus, who: keyof typeof SEEDS): Promise<Agent> {
  return Agent.create({ url: bus.url, seed: seedOf(who) });
}

/** The body of an answer that must be a success. */
function accepted({ status, body }: Answer): Json {
  expect(status, JSON.stringify(body)).toBeLessThan(300);
  return body;
}
