/** Pairing is the identity's: what comes to one of its sessions is all of theirs, decided once, and told once. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { killNow, startBus, type LocalBus } from "../../../scripts/local-bus.ts";
import type { SessionOptions } from "../../../src/client/session/session.ts";
import { sessionStatePath } from "../../../src/client/state/paths.ts";
import { Operator } from "../../../src/client/trust/operator.ts";
import { CLAIM_MS } from "../../../src/client/trust/owed-answers.ts";
import { parseSessionId, type Key } from "../../../src/protocol/address.ts";
import type { Doomed } from "./pairing-child.ts";
import { accept, begin, newHome, ok, optionsOf, reaches, received, until, type Home } from "./support.ts";

const NODE = ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"];

let bus: LocalBus;
beforeAll(async () => {
  bus = await startBus({ bundle: inject("bundle"), vars: { LOG: "faults" } });
});
afterAll(() => bus.stop());

/** Where a command on Linux looks. */
const at = ({ dir }: Home, session?: string): Partial<SessionOptions> => ({
  stateDirectory: join(dir, "state/interlink/sessions"),
  ...(session !== undefined && { session }),
});

/** A command of this home's operator. */
async function type({ dir }: Home, ...args: string[]) {
  const child = spawn(
    process.execPath,
    [...NODE, join(import.meta.dirname, "../../../src/client/cli/bin.ts"), ...args],
    {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        HOME: dir,
        XDG_STATE_HOME: join(dir, "state"),
        INTERLINK_KEY: join(dir, "id.key"),
        INTERLINK_PEERS: join(dir, "peers.json"),
      },
    },
  );
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  const [code] = (await once(child, "close")) as [number | null];
  return { out, err, code };
}

/** Bob with two sessions; Ann has knocked at one of them, whose name is hers to know. */
async function knockedAtOne() {
  const homes = [newHome("ann"), newHome("bob")] as const;
  const ann = await begin(homes[0], bus.url);
  const [one, two] = [
    await begin(homes[1], bus.url, at(homes[1])),
    await begin(homes[1], bus.url, at(homes[1], "bob-2")),
  ];
  const [{ key: anns, fingerprint }, { key: bobs }] = [await ann.whoami(), await one.whoami()];
  ok(await ann.requestPair({ key: bobs, petname: "bob" }));
  for (const session of [one, two]) await until(async () => (await session.pairRequests()).length > 0, "the knock");
  return { homes, ann, one, two, anns, bobs, fingerprint };
}

/** How many answers to knocks a session has had in its outbox. */
function answersOf(home: Home, key: Key, session: string): number {
  const path = sessionStatePath(at(home).stateDirectory!, key, parseSessionId(session)!);
  const file = new DatabaseSync(path, { readOnly: true });
  const [row] = file.prepare("SELECT count(*) AS n FROM outbox WHERE kind = 'pair_accept'").all();
  file.close();
  return Number(row!["n"]);
}

describe("a knock at one session", { timeout: 30_000 }, () => {
  it("is seen by the other and by a command; accepted by the command it is so everywhere, and told once", async () => {
    const { homes, ann, one, two, bobs, fingerprint } = await knockedAtOne();
    expect(await one.pairRequests()).toEqual(await two.pairRequests());
    expect(await one.pairRequests()).toMatchObject([{ what: "knock", claimed_name: "ann", fingerprint }]);
    expect((await type(homes[1], "pair", "list")).out).toMatch(new RegExp(`^${fingerprint}  "ann"  asks to pair`));

    const accepted = await type(homes[1], "pair", "accept", fingerprint, "--as", "ann", "--yes");
    expect(accepted, accepted.err).toMatchObject({ code: 0, out: `"ann" (${fingerprint}) is a peer now.\n` });
    for (const session of [one, two]) {
      expect(await session.pairRequests()).toEqual([]);
      expect(await session.findPairRequest(fingerprint)).toMatchObject({ code: "unknown_request" });
    }
    await accept(ann, bobs, "bob");
    expect(await ann.pairRequests()).toEqual([]);
    for (const session of ["bob-1", "bob-2"]) ok(await ann.send({ to: "bob", text: session, session }));
    expect([await received(one, 1), await received(two, 1)]).toEqual([["bob-1"], ["bob-2"]]);
    // One of them told her, the other had nothing to tell.
    expect(["bob-1", "bob-2"].map((session) => answersOf(homes[1], bobs, session)).sort()).toEqual([0, 1]);
  });

  it("is accepted in the other, and rejected nowhere after that", async () => {
    const { homes, ann, one, two, anns, bobs, fingerprint } = await knockedAtOne();
    const operator = Operator.attest(anns, "elicitation");
    const [first, second] = await Promise.all([
      one.acceptPair(fingerprint, "ann", operator),
      two.acceptPair(fingerprint, "anna", operator),
    ]);
    expect([first, second].filter((answer) => "petname" in answer)).toHaveLength(1);
    expect([first, second]).toContainEqual(expect.objectContaining({ code: "unknown_request" }));
    expect(await two.rejectPair(fingerprint, operator)).toMatchObject({ code: "unknown_request" });
    expect(await type(homes[1], "pair", "reject", fingerprint, "--yes")).toMatchObject({ code: 1 });
    await accept(ann, bobs, "bob");
  });

  it("is rejected in one and gone in all", async () => {
    const { homes, one, two, anns, fingerprint } = await knockedAtOne();
    ok(await two.rejectPair(fingerprint, Operator.attest(anns, "cli")));
    expect(await one.pairRequests()).toEqual([]);
    expect((await type(homes[1], "pair", "list")).out).toBe("");
    expect(one.notices().join()).not.toContain("pair requests");
  });
});

describe("an accepted knock", { timeout: 30_000 }, () => {
  /** Ann's knock waits at Bob, none of whose sessions runs any more. */
  async function waiting() {
    const knocked = await knockedAtOne();
    await Promise.all([knocked.one.close(400), knocked.two.close(400)]);
    return knocked;
  }

  it("with no session running is told when the next begins", async () => {
    const { homes, ann, bobs, fingerprint } = await waiting();
    expect(await type(homes[1], "pair", "accept", fingerprint, "--as", "ann", "--yes")).toMatchObject({ code: 0 });
    expect(await ann.pairRequests()).toEqual([]);
    const third = await begin(homes[1], bus.url, at(homes[1], "bob-3"));
    await accept(ann, bobs, "bob");
    ok(await third.send({ to: "ann", text: "hello" }));
    expect(await received(ann, 1)).toEqual(["hello"]);
  });

  it.each(["accepted", "claimed", "queued"] as const)(
    "whose session is killed when it has %s it, is told by another, and once, though the first comes again",
    async (until_) => {
      const { homes, ann, bobs } = await waiting();
      // It died longer ago than a claim holds.
      const nowMs = Date.now() - CLAIM_MS;
      const options = optionsOf(homes[1], bus.url, at(homes[1]));
      const doomed: Doomed = { options, petname: "ann", until: until_, nowMs };
      const child = spawn(
        process.execPath,
        [...NODE, join(import.meta.dirname, "pairing-child.ts"), JSON.stringify(doomed)],
        {
          stdio: ["ignore", "pipe", "inherit"],
        },
      );
      onTestFinished(() => killNow(child));
      const [line] = (await once(child.stdout, "data")) as [Buffer];
      child.kill("SIGKILL");
      await once(child, "close");
      expect(await ann.pairRequests()).toEqual([]);

      const second = await begin(homes[1], bus.url, at(homes[1], "bob-2"));
      const [request] = await until(async () => {
        const requests = await ann.pairRequests();
        return requests.length > 0 ? requests : undefined;
      }, "the answer");
      expect(request).toMatchObject({ what: "answer", key: bobs });
      const first = await begin(homes[1], bus.url, at(homes[1]));
      const msg_id = String(line).trim();
      if (msg_id !== "") {
        // Nothing of what either has sent was refused as another under the same id.
        for (const session of until_ === "queued" ? [first, second] : [second]) {
          await reaches(session, { msg_id }, "stored", "acked");
        }
      }
      await accept(ann, bobs, "bob");
      ok(await ann.send({ to: "bob", text: "in", session: "bob-1" }));
      expect(await received(first, 1)).toEqual(["in"]);
      expect(await ann.pairRequests()).toEqual([]);
    },
  );
});
