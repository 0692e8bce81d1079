/**
 * docs/COSTS.md, counted anew row by row: each call is made at the objects, on an identity that is awake, has one
 * session and has published contacts, and what its statements read and write is what the document must say.
 *
 * A recount is to run this file and write down what it finds.
 */

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import counts from "../../docs/costs.json";
import text from "../../docs/COSTS.md?raw";
import type { Key } from "../../src/protocol/address.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/constants.ts";
import type { DirectoryCalls, Entry } from "../../src/durable/calls.ts";
import { shardName, shardOf } from "../../src/durable/directory-shards.ts";
import { askDirectory, askIdentity, pollIdentity } from "../../src/worker/ask.ts";
import type { Agent } from "../support/agent.ts";
import { newAgent, open } from "../support/door.ts";
import {
  announcement,
  ask,
  bindings,
  entry,
  freezeAt,
  must,
  newKey,
  sendMany,
  sendOne,
  session,
  stubOf,
  take,
  view,
} from "../support/objects.ts";
import { costOf, countRows, look, type Cost } from "../support/rows.ts";

const { HEARTBEAT_MS } = DEFAULT_LIMITS;
/** Far ahead: an alarm that lies in the past of the real clock would ring by itself. */
const NOW = 4_000_000_000_000;
const SHARDS = 8;

beforeAll(countRows);
let nowMs = NOW;
const passMs = (ms: number) => freezeAt((nowMs += ms));
beforeEach(() => passMs(1));

let serial = 0;
const nonce = () => ({ nonce: `n${++serial}`, expiresAtMs: nowMs + 121_000 });
const say = (key: Key, id: string, isShown = false) => {
  const said = announcement(key, id, nowMs + ++serial);
  return ask(key, "announce", { announcement: said, ...(isShown ? { public: said } : {}) });
};
const many = (sender: Key, count = 64, to = "s1") => Array.from({ length: count }, () => entry(sender, to));
const close = (key: Key, id: string, goodbyes: { to: Key; entry: Entry }[] = []) =>
  must(key, "unregister", { session: session(id), ts: nowMs + ++serial, sig: `bye${serial}`, goodbyes });
const ackOf = (key: Key, acks: string[]) => must(key, "ack", { session: session("s1"), acks });
const handlesOf = async (key: Key) => (await take(key, "s1")).items!.map((item) => item.ack);
const ring = (key: Key) => runDurableObjectAlarm(stubOf(key));
const directory = <Operation extends keyof DirectoryCalls>(
  key: Key,
  operation: Operation,
  call: DirectoryCalls[Operation]["call"],
) => askDirectory(bindings, shardOf(key, SHARDS), operation, call);

/** Wakes a shard and makes its tables, as a bus in use has them; then it has counted what it lists. */
async function warmShard(key: Key): Promise<void> {
  const other = newKey();
  await directory(key, "list", { key: other, isShown: false });
  await directory(key, "unlist", { key: other });
}

/** An identity with one session and one contact. */
async function someone(): Promise<{ key: Key; peer: Key }> {
  const [key, peer] = [newKey(), newKey()];
  await warmShard(key);
  await must(key, "contacts", { contacts: [peer], ts: nowMs });
  await say(key, "s1");
  return { key, peer };
}

/** The same, that has had mail before. */
async function correspondent(): Promise<{ key: Key; peer: Key }> {
  const one = await someone();
  await sendOne(one.key, entry(one.peer, "s1"));
  await ackOf(one.key, await handlesOf(one.key));
  await sendOne(one.key, entry(one.peer, "s1"));
  return one;
}

/** The same that polls: its alarm is armed for its nonces. */
async function poller(): Promise<{ key: Key; peer: Key }> {
  const one = await someone();
  await take(one.key, "s1", { nonce: nonce() });
  return one;
}

interface Listener {
  readonly agent: Agent;
  readonly key: Key;
  readonly peer: Key;
  readonly socket: Awaited<ReturnType<typeof open>>;
}

/** The same with a socket, that has connected before today. */
async function listener(): Promise<Listener> {
  const agent = await newAgent();
  const { key } = agent;
  const peer = newKey();
  await warmShard(key);
  await must(key, "contacts", { contacts: [peer], ts: nowMs });
  await say(key, "s");
  return { agent, key, peer, socket: await open(agent, "s") };
}

async function ended(key: Key, id = "s"): Promise<void> {
  await expect
    .poll(() => look(key, `SELECT connected FROM session WHERE session_id = '${id}'`))
    .toEqual([{ connected: 0 }]);
  await runInDurableObject(stubOf(key), (_, { storage }) => storage.sync());
}

type Cells = readonly [read: string, written: string, alarms: string];
const cellsOf = ({ read, written, alarms }: Cost): Cells => [`${read}`, `${written}`, `${alarms}`];
const counted = async (work: () => Promise<unknown>) => cellsOf(await costOf(work));

/** What a call costs beyond another. */
function more(cost: Cost, than: Cost): Cells {
  const text = (field: keyof Cost) => (cost[field] === than[field] ? "0" : `${cost[field] - than[field]} more`);
  return [text("read"), text("written"), `${cost.alarms}`];
}

/** What grows with a number, counted at two: "1 + 2 n". */
async function growing(costAt: (n: number) => Promise<Cost>): Promise<Cells> {
  const [few, lot] = [await costAt(2), await costAt(8)];
  const text = (field: keyof Cost) => {
    const slope = (lot[field] - few[field]) / 6;
    const rest = few[field] - 2 * slope;
    const grows = slope === 1 ? "n" : `${slope} n`;
    if (slope === 0) return `${rest}`;
    if (rest < 0) return `${grows} - ${-rest}`;
    return rest === 0 ? grows : `${rest} + ${grows}`;
  };
  return [text("read"), text("written"), text("alarms")];
}

type Count = () => Promise<Cells>;

const HTTP: Readonly<Record<string, Count>> = {
  "`POST /announce`, heartbeat": async () => {
    const { key } = await someone();
    return counted(() => say(key, "s1"));
  },
  "`POST /announce`, heartbeat – that says what wakes it, or takes that back": async () => {
    const { key } = await someone();
    const wake = { path: "channel", proven_at_ms: nowMs, until_ms: nowMs + 1_000, sig: "sig" };
    const sayWith = (lease: object) =>
      counted(() => ask(key, "announce", { announcement: announcement(key, "s1", nowMs + ++serial), ...lease }));
    const said = await sayWith({ wake });
    expect(await sayWith({ wake: { ...wake, path: "stop_hook" } })).toEqual(said);
    expect(await sayWith({})).toEqual(said);
    return said;
  },
  "`POST /announce`, heartbeat – first of an identity": async () => {
    const key = newKey();
    await warmShard(key);
    return counted(() => say(key, "s1"));
  },
  "`POST /announce`, heartbeat – first of a further session": async () => {
    const { key } = await someone();
    return counted(() => say(key, "s2"));
  },
  "`POST /announce`, heartbeat – first that is shown to all (or the first hidden one after)": async () => {
    const { key } = await someone();
    const shown = await counted(() => say(key, "s1", true));
    expect(await counted(() => say(key, "s1"))).toEqual(shown);
    return shown;
  },
  "`POST /announce`, heartbeat – the same bytes again, or an older one (409)": async () => {
    const { key } = await someone();
    const said = announcement(key, "s1", nowMs + ++serial);
    await ask(key, "announce", { announcement: said });
    const again = await counted(() => ask(key, "announce", { announcement: said }));
    const older = announcement(key, "s1", nowMs);
    const { read, ...rest } = await costOf(() => ask(key, "announce", { announcement: older }));
    expect(rest).toEqual({ written: 0, alarms: 0 });
    expect(read).toBeLessThanOrEqual(Number(again[0]));
    return again;
  },
  "`POST /unregister`": async () => {
    const { key } = await someone();
    await say(key, "s2");
    await close(key, "s2");
    return counted(() => close(key, "s1"));
  },
  "`POST /unregister` – of the last shown session, with one goodbye": async () => {
    const { key } = await someone();
    const { key: to } = await correspondent();
    await must(to, "contacts", { contacts: [key], ts: nowMs + ++serial });
    await say(key, "s1", true);
    return counted(() => close(key, "s1", [{ to, entry: entry(key, "s1") }]));
  },
  "`POST /unregister` – again": async () => {
    const { key } = await someone();
    const call = { session: session("s1"), ts: nowMs + ++serial, sig: "bye", goodbyes: [] };
    await must(key, "unregister", call);
    return counted(() => must(key, "unregister", call));
  },
  "`GET /roster?identity=`, of n sessions": () =>
    growing(async (n) => {
      const { key } = await someone();
      for (let id = 2; id <= n; id++) await say(key, `s${id}`);
      return costOf(() => view(key, key));
    }),
  "`GET /roster?identity=`, of n sessions – of a key that nobody has seen": () =>
    counted(() => view(newKey(), newKey())),
  "`GET /roster`, a page of n identities": () =>
    growing(async (n) => {
      const keys = await Promise.all(Array.from({ length: n }, async () => (await someone()).key));
      for (const key of keys) await say(key, "s1", true);
      const [first] = keys as [Key];
      return costOf(async () => {
        for (const key of keys) {
          // As one shard finds them: each is one row. They lie in several here, among others of this file.
          const found = await askDirectory(bindings, shardOf(key, SHARDS), "page", { limit: 0, isShown: true });
          expect(found).toEqual({ keys: [] });
          await askIdentity(bindings, key, "view", { viewer: first, scope: "bus" });
        }
      }).then((cost) => ({ ...cost, read: cost.read + n }));
    }),
  "`POST /send`, one message": async () => {
    const { key, peer } = await correspondent();
    return counted(() => sendOne(key, entry(peer, "s1")));
  },
  "`POST /send`, one message – the first to an inbox": async () => {
    const { key, peer } = await correspondent();
    return counted(() => sendOne(key, entry(peer, "s2")));
  },
  "`POST /send`, one message – duplicate": async () => {
    const { key, peer } = await correspondent();
    const one = entry(peer, "s1");
    await sendOne(key, one);
    return counted(() => sendOne(key, one));
  },
  "`POST /send`, one message – refused, `not_paired`": async () => {
    const { key } = await correspondent();
    return counted(() => sendOne(key, entry(newKey(), "s1")));
  },
  "`POST /send`, one message – a batch of 64 to one recipient": async () => {
    const { key, peer } = await correspondent();
    return counted(() => sendMany(key, many(peer)));
  },
  "`POST /send`, one message – a batch of 3 to three recipients": async () => {
    const three = [await correspondent(), await correspondent(), await correspondent()];
    return counted(() => Promise.all(three.map(({ key, peer }) => sendOne(key, entry(peer, "s1")))));
  },
  "`POST /send`, one message – a knock": async () => {
    const { key } = await correspondent();
    await sendOne(key, entry(newKey(), "s1", { kind: "pair_request" }));
    return counted(() => sendOne(key, entry(newKey(), "s1", { kind: "pair_request" })));
  },
  "`GET /recv`, nothing waits": async () => {
    const { key } = await poller();
    return counted(() => take(key, "s1", { nonce: nonce() }));
  },
  "`GET /recv`, nothing waits – one message": async () => {
    const { key, peer } = await poller();
    await sendOne(key, entry(peer, "s1"));
    return counted(() => take(key, "s1", { nonce: nonce() }));
  },
  "`GET /recv`, nothing waits – a batch of 64": async () => {
    const { key, peer } = await poller();
    await sendMany(key, many(peer));
    return counted(() => take(key, "s1", { nonce: nonce() }));
  },
  "`GET /recv`, nothing waits – the first within a day": async () => {
    const { key } = await someone();
    await take(key, "s1"); // what an instance asks once is asked
    const first = await costOf(() => take(key, "s1", { nonce: nonce() }));
    return more(first, await costOf(() => take(key, "s1", { nonce: nonce() })));
  },
  "`GET /recv`, nothing waits – held, then timed out": async () => {
    const { key } = await poller();
    return counted(async () => {
      const answer = await pollIdentity(
        bindings,
        { key, session: session("s1"), max: 64, acks: [], nonce: nonce() },
        true,
      );
      answer.webSocket!.accept();
      answer.webSocket!.close(1000);
      await runInDurableObject(stubOf(key), (_, { storage }) => storage.sync());
    });
  },
  "`GET /recv`, nothing waits – held, then woken": async () => {
    const { key, peer } = await poller();
    await sendOne(key, entry(peer, "s1"));
    await ackOf(key, await handlesOf(key));
    const alone = await costOf(async () => {
      await sendOne(key, entry(peer, "s2"));
    });
    const both = await costOf(async () => {
      const answer = await pollIdentity(
        bindings,
        { key, session: session("s1"), max: 64, acks: [], nonce: nonce() },
        true,
      );
      const heard = new Promise((resolve) => answer.webSocket!.addEventListener("message", resolve));
      answer.webSocket!.accept();
      await sendOne(key, entry(peer, "s1"));
      await heard;
    });
    return cellsOf({ read: both.read - alone.read, written: both.written - alone.written, alarms: both.alarms });
  },
  "`GET /recv`, nothing waits – a heartbeat after the session's last sign of life": async () => {
    const { key } = await poller();
    const before = await costOf(() => take(key, "s1", { nonce: nonce() }));
    passMs(HEARTBEAT_MS);
    return more(await costOf(() => take(key, "s1", { nonce: nonce() })), before);
  },
  "`POST /ack`, one message": async () => {
    const { key, peer } = await correspondent();
    await sendOne(key, entry(peer, "s1"));
    const one = await counted(async () => ackOf(key, [(await handles(key))[0]!]));
    expect(await counted(async () => ackOf(key, [(await handles(key))[0]!]))).toEqual(one); // also the last one
    return one;
  },
  "`POST /ack`, one message – a batch of 64": async () => {
    const { key, peer } = await correspondent();
    await sendMany(key, many(peer));
    return counted(async () => ackOf(key, (await handles(key)).slice(1)));
  },
  "`POST /ack`, one message – again": async () => {
    const { key, peer } = await correspondent();
    await sendOne(key, entry(peer, "s1"));
    const [first] = (await handles(key)) as [string];
    await ackOf(key, [first]);
    return counted(() => ackOf(key, [first]));
  },
  "`PUT /contacts`, changed": async () => {
    const { key } = await someone();
    return counted(() => must(key, "contacts", { contacts: [newKey()], ts: nowMs + ++serial }));
  },
  "`PUT /contacts`, changed – first of an identity": async () => {
    const key = newKey();
    await warmShard(key);
    return counted(() => must(key, "contacts", { contacts: [newKey()], ts: nowMs }));
  },
  "`PUT /contacts`, changed – the same list again": async () => {
    const { key, peer } = await someone();
    const call = { contacts: [peer], ts: nowMs + ++serial };
    await must(key, "contacts", call);
    return counted(() => must(key, "contacts", call));
  },
  "`POST /receipts`, n ids": () =>
    growing(async (n) => {
      const { key, peer } = await correspondent();
      const entries = many(peer, n);
      await sendMany(key, entries);
      return costOf(() => must(key, "receipts", { sender: peer, msgIds: entries.map(({ msgId }) => msgId) }));
    }),
  "`POST /invite`": async () => {
    const key = newKey();
    await warmShard(key);
    return counted(async () => {
      await directory(key, "useNonce", { nonce: nonce() });
      await directory(key, "putInvite", { hash: newKey(), expiresAtMs: nowMs + 1_000 });
    });
  },
  "`POST /join`": async () => {
    const [key, hash] = [newKey(), newKey()];
    await warmShard(key);
    await directory(key, "putInvite", { hash, expiresAtMs: nowMs + 1_000 });
    return counted(async () => {
      expect(await directory(key, "takeInvite", { hash, key })).toEqual({});
      await directory(key, "useNonce", { nonce: nonce() });
      await directory(key, "admit", { key });
      await directory(key, "removeInvite", { hash });
    });
  },
  "`POST /join` – refused": async () => {
    const key = newKey();
    await warmShard(key);
    return counted(() => directory(key, "takeInvite", { hash: newKey(), key }));
  },
  "`POST /forget`": async () => {
    const { key } = await someone();
    return counted(() => must(key, "forget", { nonce: nonce() }));
  },
  "`GET /stats`, a page of n identities": () =>
    growing(async (n) => {
      const keys = await Promise.all(Array.from({ length: n }, async () => (await someone()).key));
      return costOf(async () => {
        for (const key of keys) {
          await askDirectory(bindings, shardOf(key, SHARDS), "page", { limit: 0, isShown: false });
          await must(key, "census", {});
        }
      }).then((cost) => ({ ...cost, read: cost.read + n }));
    }),
};

/** Handles that a poll handed out, not counted: {@link costOf} begins anew with each message. */
async function handles(key: Key): Promise<string[]> {
  const found = await look(key, "SELECT seq FROM message WHERE inbox = 's1' ORDER BY seq");
  return found.map(({ seq }) => `s1.${(seq as number).toString(36)}`);
}

const SOCKET: Readonly<Record<string, Count>> = {
  handshake: async () => {
    const { agent, key, socket } = await listener();
    await socket.end();
    await ended(key);
    return counted(() => open(agent, "s"));
  },
  "handshake – the first within a day": async () => {
    const agent = await newAgent();
    await warmShard(agent.key);
    await must(agent.key, "contacts", { contacts: [newKey()], ts: nowMs });
    await say(agent.key, "s");
    await take(agent.key, "s"); // what an instance asks once is asked
    const first = await costOf(async () => void (await (await open(agent, "s")).end()));
    await ended(agent.key);
    const again = await costOf(async () => void (await (await open(agent, "s")).end()));
    await ended(agent.key);
    return more(first, again);
  },
  "handshake – that supersedes an older socket": async () => {
    const { agent, socket } = await listener();
    return counted(async () => {
      await open(agent, "s");
      await socket.closed();
    });
  },
  "`announce` frame": async () => {
    const { socket } = await listener();
    passMs(1_000);
    socket.announce();
    await socket.settled();
    passMs(1_000);
    return counted(async () => {
      socket.announce();
      await socket.settled();
    });
  },
  "a message that is pushed": async () => {
    const { key, peer, socket } = await listener();
    await sendOne(key, entry(peer, "s"));
    await socket.settled();
    socket.ack();
    await socket.settled();
    return counted(async () => {
      await sendOne(key, entry(peer, "s"));
      await socket.settled();
    });
  },
  "a batch of 64 that is pushed": async () => {
    const { key, peer, socket } = await listener();
    await sendOne(key, entry(peer, "s"));
    await socket.settled();
    socket.ack();
    await socket.settled();
    return counted(async () => {
      await sendMany(key, many(peer, 64, "s"));
      await socket.settled();
    });
  },
  "`ack` frame, one message": async () => {
    const { key, peer, socket } = await listener();
    await sendOne(key, entry(peer, "s"));
    await socket.settled();
    return counted(async () => {
      socket.ack();
      await socket.settled();
    });
  },
  "`ack` frame, 64 messages": async () => {
    const { key, peer, socket } = await listener();
    await sendMany(key, many(peer, 64, "s"));
    await socket.settled();
    return counted(async () => {
      socket.ack();
      await socket.settled();
    });
  },
  "`unregister` frame, without goodbyes": async () => {
    const { key, socket } = await listener();
    passMs(1_000);
    return counted(async () => {
      socket.unregister();
      await socket.closed();
      await runInDurableObject(stubOf(key), (_, { storage }) => storage.sync());
    });
  },
  "closed by the client": async () => {
    const { key, socket } = await listener();
    return counted(async () => {
      await socket.end();
      await ended(key);
    });
  },
  "closed by the client – with messages pushed and not acked": async () => {
    const { key, peer, socket } = await listener();
    await sendOne(key, entry(peer, "s"));
    await socket.settled();
    return counted(async () => {
      await socket.end();
      await ended(key);
    });
  },
};

/** Rows that no statement is behind, or that point at another row. */
const NOT_COUNTED = [
  "`GET /health`",
  "any, not signed, badly signed, or off the clock",
  "`GET /recv`, nothing waits – with acks",
  "`ping`",
];

/** The rows of a section's table: name, with that of the row it varies, and its last three cells without notes. */
function rowsOf(section: string): Map<string, Cells> {
  const part = text.split(`\n## ${section}\n`)[1]!.split("\n## ")[0]!;
  const lines = part
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2);
  let head = "";
  return new Map(
    lines.map((line) => {
      const cells = line.split("|").map((cell) => cell.trim());
      const name = cells[1]!;
      if (!name.startsWith("–")) head = name;
      const [read, written, alarms] = cells
        .slice(-4, -1)
        .map((cell) => cell.replace(/( [¹²³⁴]| in all|, the send's)$/, "")) as [string, string, string];
      return [name === head ? name : `${head} ${name}`, [read, written, alarms] as const];
    }),
  );
}

function isWithin(found: string, said: string): boolean {
  const [, from, to] = /^(\d+) (?:to|or) (\d+)$/.exec(said) ?? [];
  return from !== undefined && Number(found) >= Number(from) && Number(found) <= Number(to);
}

describe.each([
  { section: "HTTP", counting: HTTP },
  { section: "Socket", counting: SOCKET },
])("$section", ({ section, counting }) => {
  const rows = rowsOf(section);

  it.each(Object.entries(counting))("%s", async (name, count) => {
    const found = await count();
    const said = rows.get(name)!;
    // A range in the document is of what the call finds: it must hold what was found here.
    expect(found.map((cell, n) => (isWithin(cell, said[n]!) ? said[n] : cell))).toEqual(said);
  });

  it("no row is left uncounted", () => {
    expect([...rows.keys()].filter((name) => !NOT_COUNTED.includes(name)).sort()).toEqual(Object.keys(counting).sort());
  });
});

describe("beside the tables", () => {
  it("admission: one row at the key's shard", async () => {
    const key = newKey();
    await directory(key, "admit", { key });
    expect(await costOf(() => directory(key, "isAdmitted", { key }))).toEqual(costIn(counts.admission));
  });

  it("an alarm reads every table; each receipt twice, each nonce that goes once, and writes a row for it", async () => {
    const { alarm } = counts;
    const bare = await someone();
    await ring(bare.key);
    expect(await costOf(() => ring(bare.key))).toEqual(costIn(alarm));

    const { key, peer } = await someone();
    const ringWithMore = async () => {
      await sendMany(key, many(peer));
      await ackOf(key, await handles(key));
      return (await costOf(() => ring(key))).read;
    };
    expect(-(await ringWithMore()) + (await ringWithMore())).toBe(64 * alarm.rows_read_per_receipt);

    const sweep = async (nonces: number) => {
      const polling = await someone();
      for (let n = 0; n < nonces; n++) await take(polling.key, "s1", { nonce: nonce() });
      passMs(alarm.sweep_ms);
      return costOf(() => ring(polling.key));
    };
    const [few, lot] = [await sweep(20), await sweep(140)];
    expect((lot.read - few.read) / 120).toBe(alarm.rows_read_per_nonce);
    expect((lot.written - few.written) / 120).toBe(alarm.rows_written_per_nonce_or_receipt_that_goes);
  });

  it("an object that slept reads more: least for a roster, most for mail", async () => {
    const asleep = async (act: (key: Key, peer: Key) => Promise<unknown>) => {
      const { key, peer } = await someone();
      const one = async () => {
        const cost = await costOf(() => act(key, peer));
        await ackOf(key, await handles(key));
        return cost.read;
      };
      await one();
      const awake = await one();
      await evictDurableObject(stubOf(key));
      return (await one()) - awake;
    };
    const reads = {
      view: await asleep((key) => view(key, key)),
      announce: await asleep((key) => say(key, "s1")),
      poll: await asleep((key) => take(key, "s1", { nonce: nonce() })),
      send: await asleep((key, peer) => sendOne(key, entry(peer, "s1"))),
    };
    expect(reads).toEqual({ view: 16, announce: 16, poll: 20, send: counts.wake.rows_read });
    expect(text).toContain(`reads ${reads.view} to ${reads.send} rows more`);
  });

  it("an identity from before the last schema step pays for it when it is next awake, once", async () => {
    const { key } = await someone();
    const woken = async () => {
      await evictDurableObject(stubOf(key));
      return costOf(() => view(key, key));
    };
    const usual = await woken();
    await runInDurableObject(stubOf(key), (_, { storage: { sql } }) => {
      sql.exec("ALTER TABLE session DROP COLUMN wake");
      sql.exec("DELETE FROM schema_step WHERE step > 1");
    });
    const first = await woken();
    expect(await woken()).toEqual(usual);
    expect(usual.written).toBe(0);
    expect(text).toContain(`reads ${first.read - usual.read} rows more and writes ${first.written}.`);
  });

  it("the first send to an object that slept also counts what its inboxes hold", async () => {
    const { key, peer } = await someone();
    for (let n = 0; n < 4; n++) await sendMany(key, many(peer, 50));
    const awake = await costOf(() => sendOne(key, entry(peer, "s1")));
    await evictDurableObject(stubOf(key));
    const { read } = await costOf(() => sendOne(key, entry(peer, "s1")));
    expect(text).toContain(`(${read - awake.read} were read for 201)`);
  });

  it("an identity's empty database is so large", async () => {
    const { key } = await someone();
    const size = await runInDurableObject(stubOf(key), (_, { storage }) => storage.sql.databaseSize);
    expect(size).toBe(counts.stored_bytes.identity);
  });

  it("a shard that slept counts what it lists at the first key that is new to it", async () => {
    const key = newKey();
    await warmShard(key);
    const stub = bindings.DIRECTORY.getByName(shardName(shardOf(key, SHARDS)));
    const listed = await runInDurableObject(
      stub,
      (_, { storage }) => storage.sql.exec("SELECT 1 FROM listed").toArray().length,
    );
    await evictDurableObject(stub);
    const first = await costOf(() => directory(key, "list", { key, isShown: false }));
    expect(first).toMatchObject({ written: 1, alarms: 0 });
    expect([12, 14]).toContain(first.read - listed); // two more where an alarm was ever set
    const other = newKey();
    expect(
      await costOf(() => askDirectory(bindings, shardOf(key, SHARDS), "list", { key: other, isShown: false })),
    ).toEqual({
      read: 0,
      written: 1,
      alarms: 0,
    });
  });
});

/** A count of docs/costs.json. */
function costIn(count: { rows_read: number; rows_written: number; alarms_set: number }): Cost {
  return { read: count.rows_read, written: count.rows_written, alarms: count.alarms_set };
}
