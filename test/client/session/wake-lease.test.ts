/**
 * When a link tells its bus what wakes the session: what is signed, by which clock, what is news and what is not, and what
 * it does with a bus that does not know of it. The bus is a stand-in; each announcement is verified as a real one does.
 */

import { describe, expect, it, onTestFinished } from "vitest";
import type { Ears, Line } from "../../../src/client/bus/line.ts";
import type { ProvenPath } from "../../../src/client/wake/lease.ts";
import { LEASE_MS } from "../../../src/client/wake/proof.ts";
import { parseAnnouncement, type Announcement } from "../../../src/protocol/announcement.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/constants.ts";
import { isRefusal } from "../../../src/protocol/refusal.ts";
import { isWakeLeaseTimely, verifyWakeLease, type WakeLease } from "../../../src/protocol/wake-lease.ts";
import { ManualTimers, newSigner } from "../bus/support.ts";
import { bareLink } from "./bare-link.ts";

const signer = await newSigner();
const MINUTE = 60_000;

interface Frame {
  readonly t: string;
  readonly announcement: Announcement;
  readonly public?: Announcement;
  readonly wake?: WakeLease;
}

/** Whatever a promise still does. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A link to a bus whose clock is off by so much, and which says what the test has it say. */
function rig(offsetMs = 0) {
  const timers = new ManualTimers();
  const announced: Frame[] = [];
  let ears: Ears | undefined;
  let proven: ProvenPath | undefined;
  const openLine = (_url: unknown, _target: string, _token: string, heard: Ears): Line => {
    ears = heard;
    return {
      bytesRead: 0,
      send(text) {
        if (text === "ping") queueMicrotask(() => heard.text("pong"));
        else announced.push(JSON.parse(text) as Frame);
        return true;
      },
      hangUp: () => {},
      drop: () => {},
    };
  };
  const link = bareLink({ signer, timers, proven: () => proven, openLine: openLine as never });
  onTestFinished(() => link.close());
  const busNow = () => timers.now() + offsetMs;
  const say = (frame: object) => ears!.text(JSON.stringify(frame));
  return {
    link,
    timers,
    busNow,
    announced,
    last: () => announced.at(-1)!,
    async welcome() {
      say({ t: "welcome", generation: "g", now_ms: busNow(), queued: 0, versions: [1] });
      await settled();
    },
    async refuse(error: string) {
      say({ t: "err", error, message: "" });
      await settled();
    },
    cut: () => ears!.closed(1006, ""),
    /** As the desk of wakes does: what is known changes, and the links are told. */
    async prove(path: ProvenPath["path"] | undefined, atMs = timers.now()) {
      proven = path && { path, proven_at_ms: atMs };
      link.wakeChanged();
      await settled();
    },
    /** In steps short enough for a pong to come in time. */
    async pass(ms: number) {
      const endMs = timers.now() + ms;
      while (timers.now() < endMs) {
        timers.advance(Math.min(5_000, endMs - timers.now()));
        await settled();
      }
    },
  };
}

async function begun(offsetMs = 0) {
  const it = rig(offsetMs);
  it.link.start();
  await it.welcome();
  return it;
}

async function expectHeld({ announcement, wake }: Frame): Promise<void> {
  const read = parseAnnouncement(announcement);
  if (isRefusal(read)) throw new Error(read.refused);
  expect(wake && isWakeLeaseTimely(wake, read, DEFAULT_LIMITS)).toBe(true);
  expect(await verifyWakeLease(wake!, read)).toBe(true);
}

describe("what wakes the session is announced", () => {
  it("with the announcement where it is known by then, as an hour from when it was proven", async () => {
    const it = rig();
    await it.prove("channel", it.timers.now() - MINUTE);
    it.link.start();
    await it.welcome();
    expect(it.announced).toHaveLength(1);
    const { wake } = it.last();
    expect(wake).toMatchObject({ path: "channel", proven_at_ms: it.busNow() - MINUTE });
    expect(wake!.until_ms - wake!.proven_at_ms).toBe(LEASE_MS);
    expect(it.last().public).not.toHaveProperty("wake");
    await expectHeld(it.last());
  });

  it.each([-3 * 86_400_000, -90_000, 0, 90_000, 86_400_000])("by the bus's clock, off by %i ms", async (offsetMs) => {
    const it = await begun(offsetMs);
    await it.prove("inbox_socket");
    expect(it.last().wake).toMatchObject({ proven_at_ms: it.busNow(), until_ms: it.busNow() + LEASE_MS });
    await expectHeld(it.last());
  });

  it("as soon as it is proven, once; and not with every look", async () => {
    const it = await begun();
    expect(it.last()).not.toHaveProperty("wake");
    await it.prove("inbox_socket");
    expect(it.announced).toHaveLength(2);
    for (let minute = 1; minute <= 30; minute++) {
      await it.pass(MINUTE);
      await it.prove("inbox_socket"); // looked at anew, each minute of the first half
    }
    expect(it.announced).toHaveLength(2);
    await it.pass(1);
    await it.prove("inbox_socket");
    expect(it.announced).toHaveLength(3);
    expect(it.last().wake).toMatchObject({ proven_at_ms: it.busNow() });
  });

  it("anew by itself, in the second half, where it was proven since", async () => {
    const it = await begun();
    await it.prove("inbox_socket");
    await it.pass(20 * MINUTE);
    const laterMs = it.busNow();
    await it.prove("inbox_socket");
    expect(it.announced).toHaveLength(2);
    await it.pass(11 * MINUTE); // nobody looks; the heartbeats go on
    expect(it.announced).toHaveLength(3);
    expect(it.last().wake).toMatchObject({ proven_at_ms: laterMs });
    await it.pass(3 * 60 * MINUTE); // what is past needs no word
    expect(it.announced).toHaveLength(3);
    await it.prove(undefined);
    expect(it.announced).toHaveLength(3);
  });

  it("otherwise by another path, and not at all once it is lost", async () => {
    const it = await begun();
    await it.prove("inbox_socket");
    await it.prove("stop_hook");
    expect(it.last().wake).toMatchObject({ path: "stop_hook" });
    await it.prove(undefined);
    expect(it.announced).toHaveLength(4);
    expect(it.last()).not.toHaveProperty("wake");
    await it.prove(undefined);
    expect(it.announced).toHaveLength(4);
  });

  it("never where nobody knows how long ago it was: after the clock was set back, or an hour later", async () => {
    const it = await begun();
    await it.prove("inbox_socket", it.timers.now() + 1);
    await it.prove("inbox_socket", it.timers.now() - LEASE_MS);
    expect(it.announced).toHaveLength(1);
    await it.prove("inbox_socket", it.timers.now() - LEASE_MS + 1);
    expect(it.last().wake).toMatchObject({ until_ms: it.busNow() + 1 });
    it.timers.setBy(-10 * MINUTE);
    await it.prove("inbox_socket", it.timers.now() + 5 * MINUTE);
    expect(it.last()).not.toHaveProperty("wake");
  });

  it("on an open socket alone, and not before the session is announced there", async () => {
    const it = rig();
    await it.prove("inbox_socket");
    it.link.start();
    await it.prove("stop_hook");
    expect(it.announced).toEqual([]);
    await it.welcome();
    expect(it.announced).toHaveLength(1);
    it.cut();
    await it.prove("channel");
    expect(it.announced).toHaveLength(1);
    await it.pass(10_000); // it is dialled again
    await it.welcome();
    expect(it.announced).toHaveLength(2);
    expect(it.last().wake).toMatchObject({ path: "channel" });
  });
});

it("is not said behind a goodbye, which it would undo", async () => {
  const it = await begun();
  await it.prove("inbox_socket");
  void it.link.leave([], async () => []);
  await it.prove("stop_hook");
  await it.pass(2_000);
  expect(it.announced.map(({ t }) => t)).toEqual(["announce", "announce", "unregister"]);
});

describe("a bus that does not know of it", () => {
  it.each(["unknown_field", "bad_field", "bad_payload_signature"])(
    "refuses with %s: it is announced at once without, and nothing more is said of it there",
    async (error) => {
      const it = await begun();
      await it.prove("inbox_socket");
      await it.refuse(error);
      expect(it.announced.map(({ wake }) => wake !== undefined)).toEqual([false, true, false]);
      expect(it.last().announcement.ts).toBeGreaterThan(it.announced[1]!.announcement.ts);
      expect(it.link.refusal).toBeUndefined();
      await it.prove("stop_hook");
      await it.prove(undefined);
      await it.pass(2 * 60 * MINUTE);
      expect(it.announced).toHaveLength(3);
      it.link.announce(); // a summary was set
      expect(it.last()).not.toHaveProperty("wake");
    },
  );

  it("is told again on the next connection, since it may be a newer one", async () => {
    const it = await begun();
    await it.prove("inbox_socket");
    await it.refuse("unknown_field");
    it.cut();
    await it.pass(10_000);
    await it.welcome();
    expect(it.last().wake).toMatchObject({ path: "inbox_socket" });
  });

  it("is not blamed for what has nothing to do with it", async () => {
    const it = await begun();
    await it.refuse("unknown_field"); // nothing was said of wakes yet
    expect(it.announced).toHaveLength(1);
    expect(it.link.refusal).toMatchObject({ refused: "unknown_field" });
    await it.pass(2_000);
    expect(it.announced).toHaveLength(2); // said again, as ever
    await it.prove("inbox_socket");
    await it.refuse("rate_limited");
    await it.pass(3_000);
    expect(it.last().wake).toMatchObject({ path: "inbox_socket" });
  });
});
