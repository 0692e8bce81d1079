/**
 * `npm run demo`: the main job, seen. A bus of its own on a free port, three agents as hosts run them, and what their tools
 * really answer when one falls silent, wakes, is killed and closes. Each fact is checked: exit 0 means that all held.
 */

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Answer } from "./demo/session.ts";
import { linesOf, presencesOf, Stage } from "./demo/stage.ts";
import { buildBundle, startBus, type LocalBus } from "./local-bus.ts";

/** Time is shortened, so that a silence of minutes is one of seconds. */
const LIVE_MS = 1_800;
const VARS = { HEARTBEAT_MS: String(LIVE_MS / 3), LIVE_MS: String(LIVE_MS) };

async function meet(stage: Stage): Promise<void> {
  const { say, alice, bob, laptop, ci } = stage;
  say.scene("They meet", "A stranger can only knock. Who is trusted is decided by people, so each types a command.");
  const strangers = (answer: Answer) => linesOf(answer, "sessions").filter(({ paired }) => paired === false);
  const seen = await stage.waits(ci, "discover", {}, (answer) => strangers(answer).length === 2);
  const public_key = strangers(seen)[0]?.["public_key"];
  await stage.calls(ci, "request_pair", { key: public_key, petname: "alice" });
  const knocks = await laptop.until("list_pair_requests", {}, ({ fields }) => fields["count"] === 1);
  const [{ key }] = knocks.fields["requests"];
  const refused = await stage.calls(laptop, "accept_pair", { fingerprint: key, petname: "bob" });
  const before = await laptop.call("list_peers");
  say.shows(
    "The agent cannot decide it: it gets the command for its human, and nothing is changed.",
    [refused.fields["error"]?.code, before.fields["peers"]],
    ["needs_operator", []],
  );
  await stage.types(alice, refused);
  const yes = await ci.until("list_pair_requests", {}, ({ fields }) => fields["count"] === 1);
  const [{ key: answered }] = yes.fields["requests"];
  await stage.types(bob, await stage.calls(ci, "accept_pair", { fingerprint: answered, petname: "alice" }));
  const peers = [linesOf(await laptop.call("list_peers"), "peers"), linesOf(await ci.call("list_peers"), "peers")];
  say.shows(
    "Each knows the other by a name of their own.",
    peers.map((known) => known.map(({ peer }) => peer)),
    [["bob"], ["alice"]],
  );
}

async function talk(stage: Stage): Promise<void> {
  const { say, laptop, ci } = stage;
  say.scene("They talk", "A message is kept by the bus until the recipient's machine has it.");
  const summary = "I test each push to the shop";
  await stage.calls(ci, "set_summary", { summary });
  // Whoever is no contact yet would not be shown it.
  const seen = await stage.waits(laptop, "discover", { peer: "bob" }, ({ text }) => text.includes(summary));
  say.shows("Alice's agent sees who is there, and at what.", presencesOf(seen), { ci: "live" });
  const asked = await stage.calls(laptop, "send_message", { to: "bob", text: "Which branch do you test?" });
  const [question] = await stage.reads(ci, 1);
  await stage.calls(ci, "send_message", { to: "alice", text: "main", in_reply_to: question?.["msg_id"] });
  const [reply] = await stage.reads(laptop, 1);
  say.shows(
    "The reply names its question, and its sender is the verified one.",
    [reply?.["from"], reply?.["body"], reply?.["in_reply_to"]],
    ["bob", "main", asked.fields["msg_id"]],
  );
}

async function delegate(stage: Stage): Promise<void> {
  const { say, laptop, ci } = stage;
  say.scene("A task", "Both sides keep who owes the next word, until a result closes it.");
  const task_id = "nightly";
  await stage.calls(laptop, "send_message", { to: "bob", text: "Please run the slow tests.", task_id });
  await stage.reads(ci, 1);
  await stage.calls(ci, "send_message", { to: "alice", text: "120 of 300 run", task_id, status: "update" });
  const ask = { to: "alice", text: "Against which database?", task_id, status: "needs_input" };
  await stage.calls(ci, "send_message", ask);
  await stage.reads(laptop, 2);
  const open = await stage.calls(laptop, "list_pending");
  await stage.calls(laptop, "send_message", { to: "bob", text: "SQLite", task_id });
  await stage.reads(ci, 1);
  await stage.calls(ci, "send_message", { to: "alice", text: "All 300 pass.", task_id, status: "result" });
  const [result] = await stage.reads(laptop, 1);
  const closed = await laptop.call("list_pending");
  say.shows(
    "It waited for Alice's answer, and the result closed it.",
    [linesOf(open, "tasks").map(({ owed_by }) => owed_by), result?.["status"], closed.fields["tasks"]],
    [["us"], "result", []],
  );
}

const TEXTS = ["The tests are red.", "It is the parser.", "Never mind, I fixed it."];

/** @returns the ids of what was written */
async function sleep(stage: Stage): Promise<string[]> {
  const { say, laptop, desktop, ci } = stage;
  say.scene("The laptop's lid closes", "Its processes are stopped where they stand (SIGSTOP). Silence is not death.");
  laptop.sleep();
  say.told(laptop.label, "(stopped)");
  const seen = await stage.waits(ci, "discover", { peer: "alice" }, (answer) => {
    const { laptop: sleeper, desktop: sibling } = presencesOf(answer);
    return sleeper !== "live" && sibling === "live";
  });
  say.shows(`Silent for ${LIVE_MS} ms is away, not gone.`, presencesOf(seen), { laptop: "away", desktop: "live" });

  const sent: Answer[] = [];
  for (const text of TEXTS) sent.push(await stage.calls(ci, "send_message", { to: "alice", text }));
  const ids = sent.map(({ fields }) => fields["msg_id"] as string);
  say.shows(
    "It goes where the talk was, says that nobody is awake there, and names the one who is.",
    sent.map(({ text }) => /stored\..*laptop is away \(asleep\? last seen.*session="desktop"/.test(text)),
    TEXTS.map(() => true),
  );
  const none = await stage.calls(desktop, "check_messages");
  const status = await stage.calls(ci, "message_status", { msg_id: ids[0] });
  say.shows(
    "Mail for the laptop waits for the laptop; no sibling gets it.",
    [none.fields["messages"], status.fields["state"]],
    [[], "stored"],
  );
  return ids;
}

async function wake(stage: Stage, ids: readonly string[]): Promise<void> {
  const { say, laptop, ci } = stage;
  say.scene("The laptop wakes", "It goes on where it stood (SIGCONT), and takes what waited.");
  laptop.wake();
  const mail = await stage.reads(laptop, TEXTS.length);
  say.shows(
    "All of it came, in the order in which it was written.",
    mail.map(({ body }) => body),
    TEXTS,
  );
  const again = await stage.calls(laptop, "check_messages");
  say.shows("Once.", again.fields["messages"], []);
  const isAcked = ({ fields }: Answer) => fields["state"] === "acked";
  await stage.waits(ci, "message_status", { msg_id: ids[0] }, isAcked);
  const states = await Promise.all(ids.map((msg_id) => ci.until("message_status", { msg_id }, isAcked)));
  say.shows(
    "Now it is acked: the laptop has it on its disk.",
    states.map(({ fields }) => fields["state"]),
    ids.map(() => "acked"),
  );
  const isLive = (answer: Answer) => presencesOf(answer)["laptop"] === "live";
  const seen = await stage.waits(ci, "discover", { peer: "alice" }, isLive);
  say.shows("And it is live again.", presencesOf(seen), { laptop: "live", desktop: "live" });
}

async function crash(stage: Stage): Promise<void> {
  const { say, laptop, ci } = stage;
  say.scene("The agent is killed", "What the host started keeps its pipe, starts another agent process and says so.");
  laptop.crash();
  say.told(laptop.label, "(its agent process is killed: SIGKILL)");
  const text = "Did you see that?";
  await stage.calls(ci, "send_message", { to: "alice", text });
  const next = await stage.calls(laptop, "whoami");
  say.shows(
    "The next call is answered, by the same session, with what happened.",
    [next.isRefusal, next.fields["session"], /Notice: the agent process ended \(.*SIGKILL/.test(next.text)],
    [false, "laptop", true],
  );
  const mail = await stage.reads(laptop, 1);
  const again = await laptop.call("check_messages");
  say.shows(
    "Nothing was lost, and nothing came twice.",
    [mail.map(({ body }) => body), again.fields["messages"]],
    [[text], []],
  );
}

async function close(stage: Stage): Promise<void> {
  const { say, laptop, ci, desktop } = stage;
  say.scene("Bob closes", "His host closes the pipe, and the agent says goodbye. Unregister is death.");
  await ci.close();
  say.told(ci.label, "(closed)");
  const seen = await stage.calls(laptop, "discover", { peer: "bob" });
  say.shows("It is gone at once.", seen.fields["sessions"], []);
  const sent = await stage.calls(laptop, "send_message", { to: "bob", text: "Good night." });
  say.shows("Whoever writes is told so.", /on the roster.*may never be read/.test(sent.text), true);
  await Promise.all([laptop.close(), desktop.close()]);
  say.shows(
    "All are closed, and none of their processes is left.",
    stage.sessions.flatMap((session) => session.running()),
    [],
  );
}

async function play(stage: Stage, { url }: LocalBus): Promise<number> {
  console.log(`A bus of its own at ${url}, with its time shortened: live is an age below ${LIVE_MS} ms.`);
  console.log("Below are tools that an agent's model calls, and what it reads; keys, ids and instants are cut.");
  await Promise.all(stage.sessions.map((session) => session.start()));
  await meet(stage);
  await talk(stage);
  await delegate(stage);
  await wake(stage, await sleep(stage));
  await crash(stage);
  await close(stage);
  const { facts, differences } = stage.say;
  console.log(`\n${facts - differences.length} of ${facts} facts held.`);
  for (const difference of differences) console.error(`Not so: ${difference}`);
  return differences.length === 0 ? 0 : 1;
}

async function main(): Promise<number> {
  if (process.platform === "win32") {
    console.error("The demo stops processes with SIGSTOP, which Windows has not. Run it in WSL.");
    return 1;
  }
  const dir = await mkdtemp(join(tmpdir(), "interlink-demo-"));
  let bus: LocalBus | undefined;
  let stage: Stage | undefined;
  let isStopping = false;
  const end = () => Promise.allSettled((stage?.sessions ?? []).map((session) => session.close()));
  // The conversation breaks off at its next call, and the way out is the usual one.
  const stop = (): void => {
    isStopping = true;
    void end();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, stop);
  try {
    const homeOf = (name: string) => join(dir, name);
    const bundle = await buildBundle(join(dir, "bundle"));
    for (const name of ["alice", "bob"]) await mkdir(homeOf(name));
    bus = await startBus({ bundle, dir: join(dir, "bus"), vars: VARS });
    if (isStopping) return 130;
    stage = new Stage({ url: bus.url, vars: VARS, homeOf });
    return await play(stage, bus);
  } catch (error) {
    if (isStopping) return 130;
    console.error(`The demo broke off: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  } finally {
    await end();
    await bus?.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

process.exitCode = await main();
