/**
 * The real object against the model, step by step: the same is asked of both, time jumps to every boundary, alarms ring
 * late and twice, the object sleeps or is aborted between any two steps.
 *
 * `MODEL_RUNS=5000 npx vitest run --project model` walks further; a failing run prints its `MODEL_SEED`, which draws the
 * very same steps again, and the fewest of them that still fail. `MODEL_SHRINK=no` is content with the first failure.
 */

import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Key } from "../../src/protocol/address.ts";
import { encodeBase64url } from "../../src/protocol/base64url.ts";
import { clock } from "../../src/durable/clock.ts";
import { readSettings } from "../../src/durable/settings.ts";
import { bindings, freezeAt, stubOf } from "../support/objects.ts";
import { closeOld, compareReceipts, compareView, poll, ring, SESSIONS, STEPS, type Real } from "./commands.ts";
import { IdentityModel } from "./identity-model.ts";

/** Far ahead of the system's clock, by which real alarms ring: none of them rings into a run. */
const NOW = 4_000_000_000_000;
const DAY = 86_400_000;
const variables = bindings as unknown as Record<string, string | undefined>;
const settings = readSettings(variables);
const runs = Number(variables["MODEL_RUNS"] || 40);
const seed = Number(variables["MODEL_SEED"] || Date.now() % 2 ** 31);
const STEPS_MAX = 120;

let lives = 0;

/** Keys that were never used, and in the same order at each run: of equals, the first by key is evicted from. */
function keyOf(role: number): Key {
  const bytes = new Uint8Array(32);
  new DataView(bytes.buffer).setUint32(1, lives);
  bytes[0] = role;
  return encodeBase64url(bytes) as Key;
}

function begin(): { model: IdentityModel; real: Real } {
  lives++;
  freezeAt(NOW);
  const senders = [1, 2, 3, 4].map(keyOf);
  const key = senders[0]!;
  return {
    model: new IdentityModel(key, settings),
    real: { key, senders, signed: new Map(), clients: new Map(), hasCrashed: false, nonces: 0, generation: undefined },
  };
}

/** All that can be asked is as the model has it; and in the end nothing is left but a list of contacts. */
async function finish(model: IdentityModel, real: Real): Promise<void> {
  for (const number of [0, 1, 3, 4]) await compareView(number, model, real);
  for (const number of real.senders.keys()) await compareReceipts(number, model, real);
  for (const id of SESSIONS) await poll({ id, max: 64, acks: [] }, model, real);
  await closeOld(model, real);
  await abortAllDurableObjects(); // with sockets open it would never rest
  model.crash();
  for (let i = 0; i < 3; i++) {
    freezeAt(clock.now() + 17 * DAY);
    await ring(1, model, real);
  }
  const hasContacts = (model.contacts?.keys.size ?? 0) > 0;
  for (let i = 0; i < 3 && !hasContacts; i++) {
    freezeAt(clock.now() + 2 * DAY);
    await runDurableObjectAlarm(stubOf(real.key));
  }
  const [tables, alarmAtMs] = await runInDurableObject(stubOf(real.key), async (_, state) => [
    state.storage.sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'")
      .toArray().length,
    await state.storage.getAlarm(),
  ]);
  expect(alarmAtMs, "an identity at rest has no alarm").toBeNull();
  if (hasContacts) expect(tables).toBeGreaterThan(0);
  else expect(tables, "a ghost is deleted").toBe(0);
}

const title = `does as the model says, whatever is asked in whatever order (OVERFLOW=${settings.overflow})`;
it(`${title}: ${runs} runs, seed ${seed}`, { timeout: 60_000 + runs * 2_000 }, async () => {
  let steps = 0;
  const counted = (each: (typeof STEPS)[number]) =>
    each.map((command) => ({
      check: () => true,
      run: async (model: IdentityModel, real: Real) => {
        steps++;
        await command.run(model, real);
      },
      toString: () => `\n  ${String(command)}`,
    }));
  await fc.assert(
    fc.asyncProperty(fc.commands(STEPS.map(counted), { maxCommands: STEPS_MAX, size: "max" }), async (commands) => {
      const { model, real } = begin();
      await fc.asyncModelRun(() => ({ model, real }), commands);
      await finish(model, real);
    }),
    { numRuns: runs, seed, endOnFailure: variables["MODEL_SHRINK"] === "no" },
  );
  console.log(`model: MODEL_SEED=${seed} MODEL_RUNS=${runs}, ${steps} steps (OVERFLOW=${settings.overflow})`);
});
