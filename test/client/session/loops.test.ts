/**
 * Agents that thank each other for everything, over a real bus: they end after a bounded number of turns, are told, lose
 * no mail, and go on when a human says so.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { killNow, startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import { isToolRefusal, type ToolRefusal } from "../../../src/client/session/agent.ts";
import { PEER_BUDGET } from "../../../src/client/session/loop-guard.ts";
import type { Session, SessionOptions } from "../../../src/client/session/session.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { begin, newHome, ok, optionsOf, pair, pairOf, reaches, until, type Home } from "./support.ts";

const { burst } = PEER_BUDGET;

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** An agent without a mind: whenever it is woken, or whenever it looks by itself, it thanks for each message. */
class Automaton {
  readonly session: Session;
  readonly #next: string;
  readonly sent: string[] = [];
  readonly read: string[] = [];
  readonly refused: ToolRefusal[] = [];
  readonly notices: string[] = [];
  wakes = 0;
  #turn: Promise<void> = Promise.resolve();
  isBusy = 0;

  /** @param next whom it writes to, whoever wrote to it */
  constructor(session: Session, next: string) {
    this.session = session;
    this.#next = next;
  }

  /** Has turns only when it is woken, as an agent that is idle. */
  sleeps(): this {
    const wake = () => {
      this.wakes++;
      this.turn();
    };
    this.session.onMail({ isHeard: () => true, wake });
    return this;
  }

  /** Looks again and again by itself, as one that waits for an answer. */
  polls(): this {
    let isOver = false;
    onTestFinished(async () => {
      isOver = true;
      await this.#turn;
    });
    void (async () => {
      while (!isOver) {
        this.turn();
        await this.#turn;
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    })();
    return this;
  }

  turn(): void {
    this.isBusy++;
    this.#turn = this.#turn.then(() => this.#answerAll()).finally(() => this.isBusy--);
  }

  async send(text: string): Promise<void> {
    const answer = await this.session.send({ to: this.#next, text });
    if (isToolRefusal(answer)) this.refused.push(answer);
    else this.sent.push(text);
    this.hear();
  }

  /** What goes with a tool's answer. */
  hear(): void {
    this.notices.push(...this.session.notices().filter((line) => line.includes("budget")));
  }

  async #answerAll(): Promise<void> {
    const { messages } = await this.session.checkMessages({ max: 64, maxBytes: 1_000_000 });
    this.hear();
    for (const { body } of messages) {
      this.read.push(body);
      await this.send(`thanks for "${body.slice(0, 40)}" ${this.sent.length}`);
    }
  }
}

const count = (automata: readonly Automaton[], of: (each: Automaton) => number) =>
  automata.reduce((sum, each) => sum + of(each), 0);

/**
 * Until nothing can happen any more: all that was sent is there, nobody is at it, and somebody was held back.
 * @param how not woken, or not let write
 * @returns how much is unread
 */
async function atRest(automata: readonly Automaton[], how: "asleep" | "refused"): Promise<number> {
  const rest = await until(async () => {
    const before = count(automata, ({ sent }) => sent.length);
    const standing = await Promise.all(automata.map(({ session }) => session.whoami()));
    const unread = standing.reduce((sum, me) => sum + me.unread, 0);
    automata.forEach((each) => each.hear());
    if (automata.some(({ isBusy }) => isBusy > 0)) return undefined;
    const isThere = count(automata, ({ read }) => read.length) + unread === before;
    const isSame = count(automata, ({ sent }) => sent.length) === before;
    // Who has wakes left is about to be woken for what is unread.
    const areAsleep = automata.every(({ wakes }, index) => standing[index]!.unread === 0 || wakes >= burst);
    const isHeldBack = how === "asleep" ? unread > 0 && areAsleep : automata.some(({ refused }) => refused.length > 0);
    return isThere && isSame && isHeldBack ? { unread } : undefined;
  }, "rest");
  return rest.unread;
}

/** Lifts by the real command, as a person does who has another terminal open. */
async function type(home: Home, ...args: string[]) {
  const env = {
    PATH: process.env["PATH"]!,
    HOME: home.dir,
    XDG_STATE_HOME: home.dir,
    INTERLINK_KEY: join(home.dir, "id.key"),
    INTERLINK_PEERS: join(home.dir, "peers.json"),
    NODE_NO_WARNINGS: "1",
  };
  const bin = join(import.meta.dirname, "../../../src/client/cli/bin.ts");
  const child = spawn(process.execPath, [bin, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  const [code] = (await once(child, "close")) as [number];
  return { code, out, err };
}

/** Where the command looks for the sessions' files, in a home of {@link type}. */
const foundBy = ({ dir }: Home): Partial<SessionOptions> => ({ stateDirectory: join(dir, "interlink/sessions") });
const told = expect.stringMatching(/^the budget of automatic replies with \w+ is used up until .*: stop/);

describe("two that thank each other for everything", { timeout: 60_000 }, () => {
  it("have an end when they are woken by mail: both are told, and what nobody was woken for is there to be read", async () => {
    const sessions = await pairOf(bus.url);
    const ann = new Automaton(sessions.ann, "bob").sleeps();
    const bob = new Automaton(sessions.bob, "ann").sleeps();
    await ann.send("thanks");
    expect(await atRest([ann, bob], "asleep")).toBe(1);
    // Ann's first was nobody's answer.
    expect(ann.sent.length + bob.sent.length).toBe(2 * burst + 1);
    expect([ann.wakes, bob.wakes]).toEqual([burst, burst]);
    expect(ann.notices).toContainEqual(told);
    expect(bob.notices).toContainEqual(told);
    expect(bob.notices).toContainEqual(expect.stringMatching(/^the budget of wakes with ann is used up/));
    expect(sessions.bob.notices()).toContainEqual(
      expect.stringMatching(/^unread: 1 \(1 from ann\); call check_messages/),
    );
    const { messages } = await sessions.bob.checkMessages({ max: 64, maxBytes: 100_000 });
    expect(messages.map(({ body }) => body)).toEqual([ann.sent.at(-1)]);
  });

  it("have an end when they look by themselves: what is too much is refused and stored nowhere", async () => {
    const sessions = await pairOf(bus.url);
    const ann = new Automaton(sessions.ann, "bob").polls();
    const bob = new Automaton(sessions.bob, "ann").polls();
    await ann.send("thanks");
    expect(await atRest([ann, bob], "refused")).toBe(0);
    expect(ann.sent.length + bob.sent.length).toBe(2 * burst + 1);
    expect([...ann.refused, ...bob.refused]).toEqual([
      { code: "budget_spent", budget: expect.objectContaining({ over: "peer", refills_at_ms: expect.any(Number) }) },
    ]);
    for (const each of [ann, bob]) expect(each.notices.filter((line) => line.includes("replies"))).toEqual([told]);
    for (const each of [ann, bob])
      expect(ok(await each.session.history({ with: each === ann ? "bob" : "ann", max: 200 })).entries).toHaveLength(
        2 * burst + 1,
      );
  });
});

it("three in a ring have an end, though each writes to one who never writes to it", { timeout: 60_000 }, async () => {
  const names = ["ann", "bob", "carl"] as const;
  const sessions = await Promise.all(names.map((name) => begin(newHome(name), bus.url)));
  const [a, b, c] = sessions as [Session, Session, Session];
  await pair(a, "bob", b, "ann");
  await pair(b, "carl", c, "bob");
  await pair(c, "ann", a, "carl");
  sessions.forEach((session) => session.notices());
  const ring = [new Automaton(a, "bob"), new Automaton(b, "carl"), new Automaton(c, "ann")].map((each) =>
    each.sleeps(),
  );
  await ring[0]!.send("pass it on");
  expect(await atRest(ring, "asleep")).toBe(1);
  expect(count(ring, ({ sent }) => sent.length)).toBe(3 * burst + 1);
  for (const each of ring) expect(each.notices).toContainEqual(told);
});

describe("a chatty peer", { timeout: 60_000 }, () => {
  it("does not starve a quiet one: that one's mail wakes, and is answered", async () => {
    const { ann, bob: chatty } = await pairOf(bus.url);
    const carl = await begin(newHome("carl"), bus.url);
    await pair(carl, "ann", ann, "carl");
    let woken = 0;
    ann.onMail({ isHeard: () => true, wake: () => woken++ });
    for (let n = 0; n <= burst; n++) {
      const sent = ok(await chatty.send({ to: "ann", text: `news ${n}` }));
      await reaches(chatty, sent, "acked");
      expect(woken).toBe(Math.min(n + 1, burst));
      const { messages } = await ann.checkMessages({ max: 64, maxBytes: 100_000 });
      expect(messages).toHaveLength(1);
      const answer = await ann.send({ to: "bob", text: `thanks ${n}` });
      if (n < burst) ok(answer);
      else expect(answer).toMatchObject({ code: "budget_spent", budget: { over: "peer" } });
    }
    ok(await carl.send({ to: "ann", text: "one question" }));
    await until(() => woken === burst + 1, "a wake for the quiet one");
    await ann.checkMessages({ max: 64, maxBytes: 100_000 });
    ok(await ann.send({ to: "carl", text: "one answer" }));
  });

  it("that gave a task gets its answer once, whatever is left", async () => {
    const { ann, bob } = await pairOf(bus.url);
    for (const task_id of ["first", "second"]) ok(await bob.send({ to: "ann", text: "count", task_id }));
    await until(async () => (await ann.listPending()).tasks.length === 2, "the tasks");
    await ann.checkMessages({ max: 64, maxBytes: 100_000 });
    for (let n = 0; n < burst; n++)
      ok(await ann.send({ to: "bob", text: `at it ${n}`, task_id: "first", status: "update" }));
    const spent = { code: "budget_spent" };
    expect(await ann.send({ to: "bob", text: "at it", task_id: "first", status: "update" })).toMatchObject(spent);
    ok(await ann.send({ to: "bob", text: "42", task_id: "first", status: "result" }));
    expect(await ann.send({ to: "bob", text: "42", task_id: "first", status: "result" })).toMatchObject(spent);
    ok(await ann.cancelTask({ to: "bob", task_id: "second" }));
  });
});

describe("what a human asked for", { timeout: 60_000 }, () => {
  it("spends nothing where no mail was read, nor when a host repeats a call", async () => {
    const { ann, bob } = await pairOf(bus.url);
    for (let n = 0; n < 2 * burst; n++) ok(await ann.send({ to: "bob", text: `news ${n}` }));
    ok(await bob.send({ to: "ann", text: "thanks" }));
    await until(async () => (await ann.checkMessages({ max: 1, maxBytes: 1_000 })).messages.length > 0, "mail");
    const request = { to: "bob", text: "again", idempotencyKey: "call-1" };
    const { msg_id } = ok(await ann.send(request));
    for (let n = 1; n < burst; n++) ok(await ann.send({ to: "bob", text: `more ${n}` }));
    expect(await ann.send({ to: "bob", text: "over" })).toMatchObject({ code: "budget_spent" });
    for (let n = 0; n < 3; n++) expect(ok(await ann.send(request)).msg_id).toBe(msg_id);
    const refused = { to: "bob", text: "over", idempotencyKey: "call-2" };
    expect(await ann.send(refused)).toMatchObject({ code: "budget_spent" });
    expect(await ann.send(refused)).toMatchObject({ code: "budget_spent" });

    ann.humanSeen();
    ok(await ann.send(refused));
  });

  it("and a text that is no message spend nothing", async () => {
    const { ann, bob } = await pairOf(bus.url);
    ok(await bob.send({ to: "ann", text: "hello" }));
    await until(async () => (await ann.checkMessages({ max: 1, maxBytes: 1_000 })).messages.length > 0, "mail");
    for (let n = 0; n < 2 * burst; n++)
      expect(await ann.send({ to: "bob", text: "" })).toMatchObject({ code: "bad_text" });
    ok(await ann.send({ to: "bob", text: "hello" }));
  });
});

describe("the human", { timeout: 60_000 }, () => {
  it("lifts it by the command while the session runs: for one peer, with a look at what is left", async () => {
    const homes = [newHome("ann"), newHome("bob")] as const;
    const ann = await begin(homes[0], bus.url, foundBy(homes[0]));
    const bob = await begin(homes[1], bus.url);
    await pair(ann, "bob", bob, "ann");
    expect(await type(homes[0], "budget")).toMatchObject({ code: 0, out: "", err: expect.stringContaining("full") });
    ok(await bob.send({ to: "ann", text: "thanks" }));
    await until(async () => (await ann.checkMessages({ max: 1, maxBytes: 1_000 })).messages.length > 0, "mail");
    for (let n = 0; n < burst; n++) ok(await ann.send({ to: "bob", text: `thanks ${n}` }));
    expect(await ann.send({ to: "bob", text: "thanks" })).toMatchObject({ code: "budget_spent" });

    const shown = await type(homes[0], "budget");
    expect(shown.out).toMatch(
      /^"bob" \([A-Z2-7-]{19}\) {2}replies 0 of 20 \(one more in \d+m\), wakes 20 of 20\nall peers together {2}replies 40 of 60, /,
    );
    expect(await type(homes[0], "budget", "lift", "bob")).toMatchObject({ code: 1, out: "" });
    expect(await type(homes[0], "budget", "lift", "bop", "--yes")).toMatchObject({
      code: 1,
      err: expect.stringContaining('"bob"'),
    });
    expect(await ann.send({ to: "bob", text: "thanks" })).toMatchObject({ code: "budget_spent" });
    expect(await type(homes[0], "budget", "lift", "bob", "--yes")).toMatchObject({ code: 0 });
    for (let n = 0; n < burst; n++) ok(await ann.send({ to: "bob", text: `thanks ${n}` }));
    expect(await ann.send({ to: "bob", text: "thanks" })).toMatchObject({ code: "budget_spent" });
    expect(await type(homes[0], "budget", "lift", "--yes")).toMatchObject({ code: 0 });
    ok(await ann.send({ to: "bob", text: "thanks" }));
  });

  it("lifts it in the host's form, and with any other decision about that peer", async () => {
    const { ann, bob } = await pairOf(bus.url);
    const { key } = await bob.whoami();
    const spendAll = async () => {
      ok(await bob.send({ to: "ann", text: "thanks" }));
      await until(async () => (await ann.checkMessages({ max: 1, maxBytes: 1_000 })).messages.length > 0, "mail");
      for (let n = 0; n < burst; n++) ok(await ann.send({ to: "bob", text: `thanks ${n}` }));
      expect(await ann.send({ to: "bob", text: "thanks" })).toMatchObject({ code: "budget_spent" });
    };
    await spendAll();
    expect(await ann.liftBudget(key, Operator.attest(key, "elicitation"))).toMatchObject({ petname: "bob" });
    await spendAll();
    ok(await ann.addPeer("bob", key, Operator.attest(key, "elicitation"))); // nothing new, but a human looked
    await spendAll();
    await expect(ann.liftBudget(key, Operator.attest((await ann.whoami()).key, "cli"))).rejects.toThrow(/operator/);
  });
});

it("a session that is killed, and comes again under another id, has no other budget", { timeout: 60_000 }, async () => {
  const { ann, bob, homes } = await pairOf(bus.url);
  await bob.close(400);
  let lines: string[] = [];
  const start = (session: string): ChildProcess => {
    const options = JSON.stringify(optionsOf(homes[1], bus.url, { session }));
    const child = spawn(process.execPath, [join(import.meta.dirname, "thanks-child.ts"), options], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NODE_NO_WARNINGS: "1" },
    });
    onTestFinished(() => killNow(child));
    let rest = "";
    child.stdout!.setEncoding("utf8").on("data", (chunk: string) => {
      const parts = (rest + chunk).split("\n");
      rest = parts.pop()!;
      lines.push(...parts);
    });
    return child;
  };
  let kept = 0;
  for (let life = 1; !lines.includes("budget_spent"); life++) {
    expect(life).toBeLessThan(10);
    lines = [];
    const session = `random-${life}`;
    const child = start(session);
    await until(async () => {
      const { identities } = ok(await ann.discover("bob"));
      return identities.some(({ sessions }) => sessions.some((each) => each.session === session));
    }, "bob under another id");
    ok(await ann.send({ to: "bob", session, text: "thanks" }));
    await until(() => lines.filter((line) => line === "sent").length >= 7 || lines.includes("budget_spent"), "thanks");
    child.kill("SIGKILL");
    await once(child, "close");
    kept += lines.filter((line) => line === "sent").length;
  }
  expect(kept).toBeGreaterThan(7);
  // A kill between the spending and the sending costs one, and gives none.
  expect(kept).toBeLessThanOrEqual(burst);
});
