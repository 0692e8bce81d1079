/** What a call took in vain is told of until somebody has heard it, however many processes that takes. */

import { expect, it } from "vitest";
import { loadIdentity, openIdentity } from "../../../src/client/trust/identity-file.ts";
import { sessionStatePath } from "../../../src/client/state/paths.ts";
import { openState } from "../../../src/client/state/store.ts";
import { isSessionRefusal, openSession } from "../../../src/client/session/session.ts";
import { fakeKey } from "../../support/fake-agent.ts";
import { arrival, session as sid } from "../state/state-fixture.ts";
import { newHome, optionsOf } from "./support.ts";

/** Nobody listens there, and nothing is begun. */
const NO_BUS = "http://127.0.0.1:9";
const TOLD = /^(\d+) messages were marked read by a call whose answer may not have arrived/;

async function readerOf() {
  const options = optionsOf(newHome("ann"), NO_BUS);
  await openIdentity(options.key);
  const identity = loadIdentity(options.key);
  if (!identity || "refused" in identity) throw new Error("no identity");
  const path = sessionStatePath(options.stateDirectory, identity.key, sid(options.session!));
  /** A process that takes a message and ends before anybody knows that the answer came out. */
  const takeOne = (id: string) => {
    const opened = openState({ path, nowMs: 1 });
    if ("refusal" in opened) throw new Error(opened.refusal);
    opened.state.receive([arrival(id, { from: fakeKey(2) })], 1);
    expect(opened.state.inbox.takeUnread({ max: 9, maxBytes: 1_000 }, 1).messages).toHaveLength(1);
    opened.state.close();
  };
  /** What the next process tells, which then ends; `isHeard`: not before another call. */
  const toldByNext = async (isHeard = false) => {
    const next = await openSession(options);
    if (isSessionRefusal(next)) throw new Error(JSON.stringify(next));
    const counts = next.notices().flatMap((line) => TOLD.exec(line)?.[1] ?? []);
    if (isHeard) await next.checkMessages({ max: 1, maxBytes: 1_000 });
    await next.close(0);
    return counts.map(Number);
  };
  return { takeOne, toldByNext };
}

it("is told again by each process that ended before another call, with what was added, and then no more", async () => {
  const { takeOne, toldByNext } = await readerOf();
  takeOne("m1");
  expect(await toldByNext()).toEqual([1]);
  expect(await toldByNext()).toEqual([1]);
  takeOne("m2");
  expect(await toldByNext(true)).toEqual([2]);
  expect(await toldByNext()).toEqual([]);
});
