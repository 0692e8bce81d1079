/**
 * An identity at work over the storage of a real object, with a directory that the test answers for, and a disk whose
 * syncs and deletions it lets finish: so that a test decides what comes before what, and waits for no clock.
 */

import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import type { Key } from "../../src/protocol/address.ts";
import type { Call, PollCall, SocketCall } from "../../src/durable/calls.ts";
import { clock } from "../../src/durable/clock.ts";
import type { Env } from "../../src/durable/env.ts";
import { Identity } from "../../src/durable/identity.ts";
import { settingsOf, type Settings } from "../../src/durable/settings.ts";
import { announcement, entry, newKey, session, stubOf } from "./objects.ts";

/** What was asked of the directory, in the order of asking; `answer` may answer late, or throw. */
export interface FakeDirectory {
  readonly calls: string[];
  /** How many were under way at a time, at most. */
  atOnce: number;
  answer: (call: string) => object | Promise<object>;
}

/** Holds what passes it until it is opened. */
export class Gate {
  #open!: () => void;
  readonly passed = new Promise<void>((resolve) => (this.#open = resolve));
  open(): void {
    this.#open();
  }
}

export interface Reborn {
  readonly identity: Identity;
  readonly state: DurableObjectState;
  readonly directory: FakeDirectory;
  /** What a peer's object does with a goodbye. */
  readonly peer: { answer: () => Promise<unknown> };
  /** What a sync of the disk and a deletion wait for before they are done; nothing if absent. */
  readonly disk: { sync?: Promise<void> | undefined; deleted?: Promise<void> | undefined; deletions: number };
  alarmAt(): Promise<number | null>;
  tables(): number;
  /** Whether it is written down that nothing is kept. */
  isEmptied(): boolean;
  said(id: string, isShown: boolean): Call<"announce">;
  mail(id: string, msgId?: string): Call<"enqueue">;
  knock(): Call<"enqueue">;
  handshake(id: string): SocketCall;
  poll(id: string): PollCall;
}

/** Runs `work` on a fresh identity of a key, of a bus that is set as others are but for `otherwise`. Its object sleeps afterwards, if no socket is open, so that who asks it next reads the disk. */
export async function reborn<T>(
  key: Key,
  work: (reborn: Reborn) => Promise<T>,
  otherwise: Partial<Settings> = {},
): Promise<T> {
  let mayLeave = true;
  const result = await runInDurableObject(stubOf(key), async (_, state) => {
    const directory: FakeDirectory = { calls: [], atOnce: 0, answer: () => ({}) };
    let underWay = 0;
    const disk: Reborn["disk"] = { deletions: 0 };
    const asked = async (call: string) => {
      directory.calls.push(call);
      directory.atOnce = Math.max(directory.atOnce, ++underWay);
      try {
        return JSON.stringify(await directory.answer(call));
      } finally {
        underWay--;
      }
    };
    const shard = {
      list: (json: string) => asked(`list ${JSON.parse(json).isShown ? "shown" : "hidden"}`),
      unlist: () => asked("unlist"),
      forget: () => asked("forget"),
    };
    const storage = overlay(state.storage, {
      sync: async () => {
        await disk.sync;
        await state.storage.sync();
      },
      // What the platform does at once, and what it says only later, apart.
      deleteAll: async () => {
        disk.deletions++;
        const deleted = state.storage.deleteAll();
        await disk.deleted;
        await deleted;
      },
    });
    const peer = { answer: () => Promise.resolve<unknown>(undefined) };
    const peers = { getByName: () => ({ enqueue: () => peer.answer() }) };
    const fake = { ...env, DIRECTORY: { getByName: () => shard }, IDENTITIES: peers } as unknown as Env;
    const settings = { ...settingsOf(env as unknown as Env), ...otherwise };
    const identity = new Identity(overlay(state, { storage }), fake, settings);
    const nonce = () => ({ nonce: crypto.randomUUID(), expiresAtMs: clock.now() + 121_000 });
    const result = await work({
      identity,
      state,
      directory,
      peer,
      disk,
      alarmAt: () => state.storage.getAlarm(),
      tables: () => state.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'identity'").toArray().length,
      isEmptied: () => state.storage.sql.exec("SELECT emptied_at_ms AS at FROM identity").one()["at"] !== null,
      said: (id, isShown) => {
        const said = announcement(key, id, nextTs());
        return { key, announcement: said, ...(isShown ? { public: said } : {}) };
      },
      mail: (id, msgId) => ({ key, entries: [entry(key, id, msgId === undefined ? {} : { msgId })] }),
      knock: () => ({ key, entries: [entry(newKey(), undefined, { kind: "pair_request" })] }),
      handshake: (id) => ({ key, session: session(id), nonce: nonce() }),
      poll: (id) => ({ key, session: session(id), max: 64, acks: [], nonce: nonce() }),
    });
    mayLeave = state.getWebSockets().length === 0; // both its ends are in this object, so it would wait for itself
    return result;
  });
  if (mayLeave) await evictDurableObject(stubOf(key)).catch(() => undefined); // asleep already
  return result;
}

let lastTs = 0;
/** Each announcement is newer than the one before, also where the clock stands. */
function nextTs(): number {
  lastTs = Math.max(lastTs + 1, clock.now());
  return lastTs;
}

/** The same with some of its members replaced; the platform's own methods want to be called on the platform's own object. */
function overlay<T extends object>(real: T, members: Partial<Record<keyof T, unknown>>): T {
  return new Proxy(real, {
    get(target, name) {
      if (Object.hasOwn(members, name)) return members[name as keyof T];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
