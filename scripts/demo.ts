/**
 * `npm run demo`: the main job, seen. A bus of its own on a free port, two signed agents, and what the bus really
 * answers when one falls silent, wakes and closes. Each fact is checked: exit 0 means that all of them held.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual, styleText } from "node:util";
import { DEFAULT_LIMITS } from "../src/protocol/constants.ts";
import { classifyPresence } from "../src/protocol/presence.ts";
import { Agent, signAnnouncement, type Answer, type Json } from "../test/support/agent.ts";
import { buildBundle, startBus, type LocalBus } from "./local-bus.ts";

/** Time is shortened, so that a silence of minutes is one of seconds. */
const LIMITS = { ...DEFAULT_LIMITS, HEARTBEAT_MS: 500, LIVE_MS: 1_500 };
const VARS = { HEARTBEAT_MS: String(LIMITS.HEARTBEAT_MS), LIVE_MS: String(LIMITS.LIVE_MS) };
/** How long to wait for what must come, and how often to look. */
const WAIT_MAX_MS = 8_000;
const LOOK_MS = 100;

/** Left out of what is shown, for it is long and says nothing here. */
const OMITTED = new Set(["pubkey", "from", "to", "ts", "sig", "at_ms", "now_ms", "view_at_ms"]);
/** Only begun. */
const BEGUN = new Set(["msg_id", "generation"]);
const SHOWN_MAX_CHARS = 360;

/** What happened, told as it happens; and which of the expected facts did not hold. */
class Transcript {
  readonly differences: string[] = [];
  facts = 0;
  #steps = 0;

  step(title: string): void {
    console.log(`\n${styleText("bold", `${++this.#steps}. ${title}`)}`);
  }

  /** One request and its answer. */
  async told(who: string, request: string, answer: Promise<Answer>): Promise<Answer> {
    const { status, body } = await answer;
    console.log(`   ${styleText("cyan", who.padEnd(13))} ${request}`);
    console.log(styleText("dim", `   ${"".padEnd(13)} ${status} ${shorten(body)}`));
    return answer;
  }

  /** What the answers show, if it is as expected. */
  shows(sentence: string, actual: unknown, expected: unknown): void {
    this.facts++;
    if (isDeepStrictEqual(actual, expected)) {
      console.log(styleText("green", `   ✓ ${sentence}`));
      return;
    }
    const difference = `${sentence}\n     expected ${JSON.stringify(expected)}\n     but got  ${JSON.stringify(actual)}`;
    this.differences.push(difference);
    console.log(styleText("red", `   ✗ ${difference}`));
  }
}

function shorten(body: Json): string {
  const text = JSON.stringify(body, (name, value) => {
    if (OMITTED.has(name)) return undefined;
    return BEGUN.has(name) ? `${String(value).slice(0, 6)}…` : value;
  });
  return text.length > SHOWN_MAX_CHARS ? `${text.slice(0, SHOWN_MAX_CHARS)}…` : text;
}

/** One conversation: who takes part, and where it is told. */
interface Scene {
  readonly say: Transcript;
  /** With two sessions, `laptop` and `desktop`. */
  readonly alice: Agent;
  /** With one session, `ci`. */
  readonly bob: Agent;
}

async function meet({ say, alice, bob }: Scene): Promise<void> {
  say.step("Two agents announce themselves, each with a key of its own");
  const announced = [
    await say.told("alice/laptop", "POST /announce", alice.announce("laptop", "alice")),
    await say.told("alice/desktop", "POST /announce", alice.announce("desktop", "alice")),
    await say.told("bob/ci", "POST /announce", bob.announce("ci", "bob")),
  ];
  say.shows("The bus knows three sessions of two identities.", statuses(announced), [202, 202, 202]);

  say.step("They pair: only contacts fill an inbox");
  const toLaptop = alice.route("laptop");
  const refused = await say.told("bob/ci", "POST /send to alice#laptop: hello", bob.send(toLaptop, "hello"));
  say.shows("A stranger's mail is refused.", [refused.status, refused.body.error], [403, "not_paired"]);
  const knock = bob.send(toLaptop, "bob", { kind: "pair_request" });
  await say.told("bob/ci", "POST /send to alice#laptop: a knock", knock);
  const poll = alice.recv({ session: "laptop", timeoutMs: 0 });
  const { body } = await say.told("alice/laptop", "GET /recv", poll);
  say.shows("But a stranger may knock.", body.envelope?.payload.kind, "pair_request");
  await alice.ack("laptop", body.ack);
  const paired = [
    await say.told("alice", "PUT /contacts: bob", alice.contacts([bob.key])),
    await say.told("bob", "PUT /contacts: alice", bob.contacts([alice.key])),
  ];
  say.shows("Each has admitted the other.", statuses(paired), [200, 200]);
}

async function fallSilent({ say, alice, bob }: Scene): Promise<void> {
  say.step("The laptop's lid closes: it says nothing more, not even goodbye");
  await say.told("alice/laptop", "POST /announce, its last heartbeat", alice.announce("laptop", "alice"));
  say.shows("Bob still sees both live.", await presences(bob, alice), { desktop: "live", laptop: "live" });
  console.log(`   (now the desktop alone announces itself; bob looks at the roster every ${LOOK_MS} ms)`);
  await until(async () => {
    await alice.announce("desktop", "alice");
    return (await presences(bob, alice))["laptop"] !== "live";
  });
  await say.told("bob/ci", "GET /roster of alice", bob.roster(alice.key));
  say.shows(
    `Older than ${LIMITS.LIVE_MS} ms by the bus's clock is away. Silence is not death.`,
    await presences(bob, alice),
    { desktop: "live", laptop: "away" },
  );
}

const TEXTS = ["the tests are red", "it is the parser", "never mind, fixed it"];

async function writeToTheSleeper({ say, alice, bob }: Scene): Promise<string[]> {
  say.step("Bob writes to the sleeping laptop");
  const messages = TEXTS.map((text) => bob.message(alice.route("laptop"), text));
  const results: Json[] = [];
  for (const [n, message] of messages.entries()) {
    const request = `POST /send to alice#laptop: ${TEXTS[n]}`;
    const { body } = await say.told("bob/ci", request, bob.request("POST", "/send", message));
    results.push([body.state, body.presence, body.queued]);
  }
  say.shows("Stored, for a session that is away: the answer claims no more.", results, [
    ["stored", "away", 1],
    ["stored", "away", 2],
    ["stored", "away", 3],
  ]);
  const again = await say.told("bob/ci", "POST /send, the first one again", bob.request("POST", "/send", messages[0]));
  say.shows("A retry is free.", [again.status, again.body.state], [200, "duplicate"]);

  say.step("The desktop, wide awake, asks for mail");
  const poll = alice.recv({ session: "desktop", timeoutMs: 0, max: 64 });
  const { body } = await say.told("alice/desktop", "GET /recv", poll);
  say.shows("Mail for the laptop waits for the laptop; no sibling gets it.", body, { status: "timeout" });
  return messages.map(({ payload }) => payload.msg_id);
}

/** @returns the laptop's announcement as whoever listened to the network has it, token and all */
async function wake({ say, alice, bob }: Scene, ids: readonly string[]): Promise<{ body: string; token: string }> {
  say.step("The laptop wakes, and drains its inbox in order");
  const announcement = { name: "alice", session: { session_id: "laptop" }, ts: alice.nextTs() };
  const body = JSON.stringify(signAnnouncement(alice.signer, announcement));
  const token = alice.token({ method: "POST", target: "/announce", body });
  await say.told("alice/laptop", "POST /announce", alice.request("POST", "/announce", body, { token }));
  say.shows("It is live again at once.", (await presences(bob, alice))["laptop"], "live");
  const stored = await say.told("bob/ci", "POST /receipts", bob.receipts(alice.key, ids));
  say.shows("Nothing is acked yet, and the receipts say so.", states(stored), ["stored", "stored", "stored"]);

  const poll = alice.recv({ session: "laptop", timeoutMs: 0, max: 64 });
  const { items = [] } = (await say.told("alice/laptop", "GET /recv", poll)).body;
  const texts = items.map(({ envelope }: Json) => envelope.payload.text);
  say.shows("All of it came, in the order in which it was sent.", texts, TEXTS);
  const handles = items.map(({ ack }: Json) => ack);
  await say.told("alice/laptop", "POST /ack", alice.ack("laptop", handles));
  const acked = await say.told("bob/ci", "POST /receipts", bob.receipts(alice.key, ids));
  say.shows("Acked is the laptop's word that it has the mail.", states(acked), ["acked", "acked", "acked"]);
  return { body, token };
}

async function close({ say, alice, bob }: Scene, captured: { body: string; token: string }): Promise<void> {
  say.step("The laptop closes for good, with a signed goodbye to its peer");
  const goodbye = alice.message(bob.route("ci"), "goodbye");
  await say.told("alice/laptop", "POST /unregister", alice.unregister("laptop", [goodbye]));
  const roster = await say.told("bob/ci", "GET /roster of alice", bob.roster(alice.key));
  say.shows(
    "It is gone at once. Unregister is death.",
    [sessionsOf(roster), roster.body.gone.map(({ session_id }: Json) => session_id)],
    [["desktop"], ["laptop"]],
  );
  const { body } = await say.told("bob/ci", "GET /recv", bob.recv({ session: "ci", timeoutMs: 0 }));
  say.shows("The bus sent the goodbye on.", body.envelope?.payload.text, "goodbye");

  say.step("Someone who listened sends the laptop's last announcement again");
  const replayed = alice.request("POST", "/announce", captured.body, { token: captured.token });
  const { status, body: answer } = await say.told("eve", "POST /announce, the captured bytes", replayed);
  say.shows("It is older than the goodbye, so it revives no one.", [status, answer.error], [409, "stale"]);
  say.shows("Only the desktop is left.", sessionsOf(await bob.roster(alice.key)), ["desktop"]);
}

/** Session → presence, by the ages that the bus gives. */
async function presences(viewer: Agent, of: Agent): Promise<Record<string, string>> {
  const { roster } = (await viewer.roster(of.key)).body;
  return Object.fromEntries(
    roster.map(({ session, age_ms }: Json) => [session.session_id, classifyPresence(age_ms, LIMITS)]),
  );
}

const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status);
const states = ({ body }: Answer): string[] => body.receipts.map(({ state }: Json) => state);
const sessionsOf = ({ body }: Answer): string[] => body.roster.map(({ session }: Json) => session.session_id);

/** Looks again and again. @throws if it does not become so */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MAX_MS;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`what was waited for did not come within ${WAIT_MAX_MS} ms`);
    await delay(LOOK_MS);
  }
}

async function play(bus: LocalBus): Promise<number> {
  const say = new Transcript();
  const scene = { say, alice: await Agent.create({ url: bus.url }), bob: await Agent.create({ url: bus.url }) };
  console.log(`A bus of its own at ${bus.url}, with its time shortened: live is an age below ${LIMITS.LIVE_MS} ms.`);
  console.log("Every request is signed. Its answers are the bus's own; keys, signatures and instants are left out.");
  await meet(scene);
  await fallSilent(scene);
  const ids = await writeToTheSleeper(scene);
  const captured = await wake(scene, ids);
  await close(scene, captured);
  for (const agent of [scene.alice, scene.bob]) agent.close();
  const { facts, differences } = say;
  console.log(`\n${facts - differences.length} of ${facts} facts held.`);
  for (const difference of differences) console.error(`Not so: ${difference}`);
  return differences.length === 0 ? 0 : 1;
}

async function main(): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), "interlink-demo-"));
  let bus: LocalBus | undefined;
  let isStopping = false;
  // The conversation breaks off at its next request, and the way out is the usual one.
  const stop = (): void => {
    isStopping = true;
    void bus?.stop();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, stop);
  try {
    const bundle = await buildBundle(join(dir, "bundle"));
    bus = await startBus({ bundle, dir: join(dir, "bus"), vars: VARS });
    return isStopping ? 130 : await play(bus);
  } catch (error) {
    if (isStopping) return 130;
    throw error;
  } finally {
    await bus?.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

process.exitCode = await main();
