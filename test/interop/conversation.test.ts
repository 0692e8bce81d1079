/** The original Rust client and ours on a bus of ours under ACCESS=open: they find each other, pair and talk. */

import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { EdgeAgent, endAgents, RustAgent, until } from "./agents.ts";

const isMissing = "missing" in inject("rust");

let bus: LocalBus;
beforeAll(async () => {
  if (!isMissing) bus = await startBus({ bundle: inject("bundle"), vars: { ACCESS: "open", LOG: "faults" } });
});
afterEach(endAgents);
afterAll(() => bus?.stop());

/** One of each, on fresh identities, that see each other on the roster. */
async function two({ arePeers = false } = {}) {
  const rust = new RustAgent({ bus: bus.url, name: "crab" });
  const edge = new EdgeAgent({ bus: bus.url, name: "edge" });
  const [rustKey, edgeKey] = await Promise.all([rust.setUp(), edge.setUp()]);
  if (arePeers) await edge.type("peers", "add", "crab", rustKey, "--yes");
  await Promise.all([rust.start(), edge.start()]);
  if (arePeers) await rust.call("add_peer", { petname: "edge", key: edgeKey });
  await until(
    () => edge.sees(rust.session),
    (session) => session !== undefined,
  );
  await rust.until("discover", {}, (text) => text.includes(edgeKey));
  return { rust, edge, rustKey, edgeKey };
}

const paired = () => two({ arePeers: true });

/** The 8 characters by which the original names a key. */
const short = (key: string) => key.slice(0, 8);

describe.skipIf(isMissing)("the Rust client and ours", { timeout: 90_000 }, () => {
  it("discover each other", async () => {
    const { rust, edge, rustKey, edgeKey } = await two();
    expect(await edge.sees(rust.session)).toMatchObject({
      public_key: rustKey,
      claimed_name: "crab",
      presence: "live",
      connected: true,
      paired: false,
    });
    const seen = await rust.call("discover");
    expect(seen).toContain(`edge (${short(edgeKey)}…)`);
    expect(seen).toContain(`crab (${short(rustKey)}…)  [you]`);
    expect(await rust.sees(edge.session)).not.toContain("away");
  });

  it("pair when theirs knocks and our operator accepts", async () => {
    const { rust, edge, rustKey } = await two();
    await rust.call("request_pair", { target: "edge" });
    const { requests } = await edge.until("list_pair_requests", {}, ({ count }) => count === 1);
    expect(await edge.type("pair", "list")).toContain('"crab"');
    await edge.type("pair", "accept", requests[0].key, "--as", "rusty", "--yes");
    await rust.until("list_peers", {}, (text) => text.startsWith("edge → "));
    expect((await edge.call("list_peers")).peers[0]).toContain(rustKey);
    await edge.until("list_pair_requests", {}, ({ count }) => count === 0);

    await rust.send("edge", "we are paired");
    expect(await edge.readOne()).toMatchObject({ from: "rusty", body: "we are paired" });
    await edge.send("rusty", "so we are");
    expect(await rust.readOne()).toMatchObject({ from: "edge", body: "so we are" });
  });

  it("pair when ours knocks, their operator accepts, and then ours", async () => {
    const { rust, edge, rustKey, edgeKey } = await two();
    await edge.call("request_pair", { key: rustKey, petname: "rusty" });
    await rust.until("list_pair_requests", {}, (text) => text.includes(edgeKey));
    await rust.call("accept_pair", { fingerprint: short(edgeKey) });
    // An agent knocked, so the answer waits for our person.
    const { requests } = await edge.until("list_pair_requests", {}, ({ count }) => count === 1);
    expect((await edge.call("list_peers")).peers).toEqual([]);
    await edge.type("pair", "accept", requests[0].key, "--as", "rusty", "--yes");
    await edge.until("list_pair_requests", {}, ({ count }) => count === 0);

    await edge.send("rusty", "hello");
    expect(await rust.readOne()).toMatchObject({ from: "edge", body: "hello" });
    await rust.send("edge", "hello yourself");
    expect(await edge.readOne()).toMatchObject({ from: "rusty", body: "hello yourself" });
  });

  it("knock again while nobody answers, and still reach others", async () => {
    const { rust, edge, rustKey } = await two();
    const other = new RustAgent({ bus: bus.url, name: "other" });
    const otherKey = await other.setUp();
    await other.start();
    await rust.call("request_pair", { target: "edge" });
    await edge.until("list_pair_requests", {}, ({ count }) => count === 1);
    await rust.until("discover", {}, (text) => text.includes(otherKey));
    // The same knock with a new signature; were it refused, their client would send nothing behind it.
    await rust.call("request_pair", { target: "edge" });
    await rust.call("request_pair", { target: "other" });
    await other.until("list_pair_requests", {}, (text) => text.includes(rustKey));
    expect(await edge.call("list_pair_requests")).toMatchObject({ count: 1 });
  });

  it("carry text both ways byte for byte", async () => {
    const { rust, edge } = await paired();
    const texts = [
      "Привет, мир: съешь ещё этих мягких французских булок",
      "🦀 ↔ 🌐 👩‍👩‍👧 🇺🇦 e\u0301",
      "one\ntwo\r\n\r\n\tthree  \n",
      '<b>&amp;</b> "quoted" \\ {"json": [1]} %23 #',
      "\u0001\u001b[31m\u202eевил\u202c\u200b\ufeff",
      "длинное ".repeat(2_500), // 37,500 bytes: more than one answer of either shows at once
    ];
    for (const text of texts) {
      await edge.send("crab", text);
      expect((await rust.readOne()).body).toBe(text);
      await rust.send("edge", text);
      expect((await edge.readOne()).body).toBe(text);
    }
  });

  it("keep the order of what is written at once", async () => {
    const { rust, edge } = await paired();
    const texts = Array.from({ length: 10 }, (_, index) => `message ${index}`);
    for (const text of texts) await rust.send("edge", text);
    expect((await edge.read(texts.length)).map(({ body }) => body)).toEqual(texts);
    for (const text of texts) await edge.send("crab", text);
    expect((await rust.read(texts.length)).map(({ body }) => body)).toEqual(texts);
  });

  it("hand over a task each way, from the request to the result", async () => {
    const { rust, edge } = await paired();
    const ours = { task_id: "ours-1" };
    const theirs = { task_id: "theirs-1" };

    await edge.send("crab", "run the tests", ours);
    expect(await rust.readOne()).toMatchObject({ body: "run the tests", ...ours });
    await rust.send("edge", "half way", { ...ours, status: "update" });
    expect(await edge.readOne()).toMatchObject({ body: "half way", ...ours, status: "update" });
    const { msg_id: question } = await rust.send("edge", "also the slow ones?", { ...ours, status: "needs_input" });
    expect(await edge.readOne()).toMatchObject({ msg_id: question, ...ours, status: "needs_input" });
    await edge.send("crab", "yes", { ...ours, in_reply_to: question });
    expect(await rust.readOne()).toMatchObject({ body: "yes", ...ours, in_reply_to: question });
    await rust.send("edge", "all green", { ...ours, status: "result" });
    expect(await edge.readOne()).toMatchObject({ body: "all green", ...ours, status: "result" });

    await rust.send("edge", "write the notes", theirs);
    expect(await edge.readOne()).toMatchObject({ body: "write the notes", ...theirs });
    await edge.send("crab", "begun", { ...theirs, status: "update" });
    expect(await rust.readOne()).toMatchObject({ body: "begun", ...theirs, status: "update" });
    await edge.send("crab", "written", { ...theirs, status: "result" });
    expect(await rust.readOne()).toMatchObject({ body: "written", ...theirs, status: "result" });

    await edge.send("crab", "dig", { task_id: "ours-2" });
    await rust.readOne();
    await edge.call("cancel_task", { to: "crab", task_id: "ours-2" });
    expect(await rust.readOne()).toMatchObject({ task_id: "ours-2", status: "canceled" });
  });

  it("are told what became of a message: ours by a receipt, theirs as far as it knows", async () => {
    const { rust, edge } = await paired();
    const { msg_id } = await edge.send("crab", "have you got it?");
    await rust.readOne();
    await edge.until("message_status", { msg_id }, ({ state }) => state === "acked");
    const { msg_id: other } = await rust.send("edge", "and you?");
    await rust.until("message_status", { msg_id: other }, (text) => text.includes("[bus_accepted]"));
  });
});
