/**
 * The HTTP calls of the original Rust client, which signs messages and announcements but no request: served under
 * ACCESS=open on loopback, and refused with a way out everywhere else.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { text as readText } from "node:stream/consumers";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { PROJECT_DIR, startBus, type LocalBus } from "../../scripts/local-bus.ts";
import { parseRosterEntry, verifyAnnouncement, type Announcement } from "../../src/protocol/announcement.ts";
import { PAGE_DEFAULT } from "../../src/protocol/constants.ts";
import { isRefusal } from "../../src/protocol/refusal.ts";
import {
  Agent,
  exchange,
  keyOf,
  signAnnouncement,
  signerOf,
  signMessage,
  signWake,
  type Answer,
  type Json,
} from "../support/agent.ts";

/** The original client's calls, and nothing that it does not send. */
class OriginalClient {
  readonly #origin: URL;
  readonly #signer: Awaited<ReturnType<typeof signerOf>>;
  readonly #session;
  readonly name: string;
  #ts = Date.now();

  private constructor(url: string, name: string, signer: OriginalClient["signer"]) {
    this.#origin = new URL(url);
    this.#signer = signer;
    this.name = name;
    this.#session = { session_id: `${name}-1`, cwd: `/home/${name}`, git_root: name, summary: "reads the code" };
  }

  static async start(url: string, name: string): Promise<OriginalClient> {
    return new OriginalClient(url, name, await signerOf(crypto.getRandomValues(new Uint8Array(32))));
  }

  get signer() {
    return this.#signer;
  }

  get route(): string {
    return `${this.#signer.key}#${this.#session.session_id}`;
  }

  announce(): Promise<Answer> {
    return this.#post("/announce", signAnnouncement(this.#signer, this.#stamped({ name: this.name })));
  }

  roster(): Promise<Answer> {
    return exchange(this.#origin, "GET", "/roster");
  }

  send(to: string, text: string): Promise<Answer> {
    const input = { to: keyOf(to), text, ts: this.#ts++, reply_to: this.route };
    return this.#post("/send", { to, payload: signMessage(this.#signer, input) });
  }

  recv(timeoutMs: number): Promise<Answer> {
    const me = this.route.replace("#", "%23");
    return exchange(this.#origin, "GET", `/recv?me=${me}&timeout_ms=${timeoutMs}`);
  }

  ack(handle: string): Promise<Answer> {
    return this.#post("/ack", { me: this.route, ack: handle });
  }

  unregister(): Promise<Answer> {
    return this.#post("/unregister", { pubkey: this.#signer.key, session: this.#session });
  }

  #stamped<T>(fields: T) {
    return { ...fields, session: this.#session, ts: this.#ts++ };
  }

  #post(target: string, body: Json): Promise<Answer> {
    const headers = { "content-type": "application/json" };
    return exchange(this.#origin, "POST", target, { headers, body: JSON.stringify(body) });
  }
}

describe("under ACCESS=open", () => {
  let bus: LocalBus;
  let alice: OriginalClient;
  let bob: OriginalClient;

  beforeAll(async () => {
    bus = await startBus({ bundle: inject("bundle"), vars: { ACCESS: "open" } });
    alice = await OriginalClient.start(bus.url, "alice");
    bob = await OriginalClient.start(bus.url, "bob");
  });

  afterAll(() => bus.stop());

  it("completes a whole conversation", async () => {
    expect(await alice.announce()).toMatchObject({ status: 202 });
    expect(await bob.announce()).toMatchObject({ status: 202 });

    const found = await inRoster(alice, bob);
    expect(found).toMatchObject({ name: "bob", session: { session_id: "bob-1", git_root: "bob" } });
    expect(found.age_ms).toBeGreaterThanOrEqual(0);
    const entry = parseRosterEntry(found);
    expect(isRefusal(entry)).toBe(false);
    expect(await verifyAnnouncement(entry as Announcement)).toBe(true);

    // A send wakes the long poll that waits for it: it ends long before its own time.
    const poll = bob.recv(25_000);
    while (!(await inRoster(alice, bob)).connected); // until it waits
    expect(await alice.send(bob.route, "are you there?")).toMatchObject({ status: 202 });
    const first = (await poll).body;
    expect(first).toMatchObject({ status: "message", envelope: { payload: { text: "are you there?" } } });
    expect(first.envelope.ts).toBeTypeOf("number");
    expect(Object.keys(first).sort()).toEqual(["ack", "envelope", "status"]);

    // One at a time, in order, and kept until acked.
    expect(await alice.send(bob.route, "and this?")).toMatchObject({ status: 202 });
    const again = (await bob.recv(25_000)).body;
    expect(again.envelope.payload).toEqual(first.envelope.payload);
    expect(await bob.ack(again.ack)).toMatchObject({ status: 200 });
    const second = (await bob.recv(25_000)).body;
    expect(second.envelope.payload.text).toBe("and this?");
    expect(await bob.ack(second.ack)).toMatchObject({ status: 200 });
    expect(await bob.recv(0)).toMatchObject({ status: 200, body: { status: "timeout" } });

    // The way back.
    expect(await bob.send(first.envelope.payload.reply_to, "yes")).toMatchObject({ status: 202 });
    const reply = (await alice.recv(25_000)).body;
    expect(reply.envelope.payload).toMatchObject({ text: "yes", from: bob.signer.key });
    expect(await alice.ack(reply.ack)).toMatchObject({ status: 200 });

    expect(await bob.unregister()).toMatchObject({ status: 202 });
    expect(await inRoster(alice, bob)).toBeUndefined();
    expect(await inRoster(bob, alice)).toBeDefined();
  });

  it("takes a knock that is signed anew under its id for the same knock, since the original does so at each try", async () => {
    const signer = await signerOf(crypto.getRandomValues(new Uint8Array(32)));
    const knock = (ts: number, text = "carol") => {
      const payload = signMessage(signer, { to: alice.signer.key, kind: "pair_request", msg_id: "knock", text, ts });
      return exchange(new URL(bus.url), "POST", "/send", {
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ to: alice.route, payload }),
      });
    };
    const ts = Date.now();
    expect(await knock(ts)).toMatchObject({ status: 202, body: { state: "stored" } });
    expect(await knock(ts + 1)).toMatchObject({ status: 200, body: { state: "duplicate" } });
    expect(await knock(ts + 2, "mallory")).toMatchObject({ status: 409, body: { error: "msg_id_conflict" } });
  });

  it("shows more identities at once than a page has by default, since the original asks for no second one", async () => {
    const crowd = await Promise.all(
      Array.from({ length: PAGE_DEFAULT + 1 }, (_, index) => OriginalClient.start(bus.url, `crowd-${index}`)),
    );
    for (const client of crowd) expect(await client.announce()).toMatchObject({ status: 202 });
    const { body } = await alice.roster();
    const shown = new Set(body.roster.map(({ pubkey }: Json) => pubkey));
    expect(crowd.filter(({ signer }) => !shown.has(signer.key))).toEqual([]);
  });

  it("shows what wakes a session to who signs as a contact of it, and to nobody who does not", async () => {
    const [friend, other] = [await Agent.create({ url: bus.url }), await Agent.create({ url: bus.url })];
    const ours = await Agent.create({ url: bus.url });
    const said = { name: "ours", session: { session_id: "s" }, ts: ours.nextTs() };
    const terms = { path: "channel", proven_at_ms: said.ts - 1, until_ms: said.ts + 60_000 };
    const wake = signWake(ours.signer, "s", terms);
    expect(await ours.contacts([friend.key])).toMatchObject({ status: 200 });
    const answer = await ours.request("POST", "/announce", { ...signAnnouncement(ours.signer, said), wake });
    expect(answer).toMatchObject({ status: 202 });
    const target = `/roster?identity=${ours.key}`;
    const unsigned = await exchange(new URL(bus.url), "GET", target);
    const ofOther = await other.request("GET", target);
    const ofFriend = await friend.request("GET", target);
    for (const { body } of [unsigned, ofOther, ofFriend]) expect(body.roster).toMatchObject([{ name: "ours" }]);
    expect(ofFriend.body.roster[0].wake).toEqual(wake);
    for (const { body } of [unsigned, ofOther]) expect(body.roster[0]).not.toHaveProperty("wake");
    const all = [(await alice.roster()).body, (await friend.roster()).body].flatMap(({ roster }) => roster);
    expect(all.filter((each: Json) => each.pubkey === ours.key)).toHaveLength(2);
    for (const each of all) expect(each).not.toHaveProperty("wake");
    for (const each of [friend, other, ours]) each.close();
  });

  it("still refuses a message or announcement whose signature does not hold", async () => {
    const { key } = alice.signer;
    const payload = { ...signMessage(bob.signer, { to: key, text: "hi", ts: Date.now() }), text: "changed" };
    const forged = await exchange(new URL(bus.url), "POST", "/send", {
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ to: alice.route, payload }),
    });
    expect(forged).toMatchObject({ status: 400, body: { error: "bad_payload_signature" } });
  });
});

describe("by default", () => {
  let bus: LocalBus;

  beforeAll(async () => {
    bus = await startBus({ bundle: inject("bundle") });
  });

  afterAll(() => bus.stop());

  it("refuses every unsigned call, says what to do, and makes no object", async () => {
    const client = await OriginalClient.start(bus.url, "alice");
    const answers = [
      await client.announce(),
      await client.roster(),
      await client.send(client.route, "to myself"),
      await client.recv(25_000),
      await client.ack("handle"),
      await client.unregister(),
    ];
    for (const { status, body } of answers) {
      expect([status, body?.error]).toEqual([401, "auth_required"]);
      expect(body.message).toMatch(/Authorization: Interlink/);
      expect(body.message).toMatch(/ACCESS=open/);
    }
    expect(await bus.objectFiles()).toEqual([]);
  });
});

describe("ACCESS=open with an audience that is not loopback", () => {
  const AUDIENCE = "http://localhost:9440,https://bus.example";

  it("is refused by npm start with a sentence", async () => {
    const args = [join(PROJECT_DIR, "scripts/start.ts"), "--var", "ACCESS:open", "--var", `AUDIENCE:${AUDIENCE}`];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    const [said, [code]] = await Promise.all([readText(child.stderr), once(child, "exit")]);
    expect(code).toBe(1);
    expect(said).toMatch(/ACCESS=open .*https:\/\/bus\.example/);
  });

  it("is refused by the bus itself, which does not start", async () => {
    const start = startBus({ bundle: inject("bundle"), vars: { ACCESS: "open", AUDIENCE } });
    await expect(start).rejects.toThrow(/ACCESS=open/);
  });
});

async function inRoster(viewer: OriginalClient, peer: OriginalClient): Promise<Json> {
  const { status, body } = await viewer.roster();
  expect(status).toBe(200);
  return body.roster.find(({ pubkey }: Json) => pubkey === peer.signer.key);
}
