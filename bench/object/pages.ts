/**
 * What a page of the whole-bus roster takes of a directory shard that lists as many as it may. The keys are put into the
 * shard's file while the bus is down: what a page takes does not depend on who they are, and to announce each would take
 * minutes. So each identity that is asked has an object that keeps nothing.
 */

import { readdir } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { buildBundle, PROJECT_DIR, startBus } from "../../scripts/local-bus.ts";
import { Agent, type Json } from "../../test/support/agent.ts";
import { median } from "../stats.ts";
import { mkdtemp, rm } from "node:fs/promises";

const LIMITS = [1, 50, 200];
const PAGES = 5;
const VARS = { ADMISSION: "open", DIRECTORY_SHARDS: "1", LISTED_MAX: "1000000", RATE_PER_S: "1000000", LOG: "faults" };

export interface PageTime {
  readonly listed: number;
  readonly hidden: number;
  readonly limit: number;
  /** The first look at these identities: their objects are made for it. */
  readonly firstMs: number;
  readonly againMs: number;
}

export async function pages(stateDir: string, listed: number, hidden: number): Promise<PageTime[]> {
  const dir = await mkdtemp(join(stateDir, "pages-"));
  try {
    const bundle = await buildBundle(join(PROJECT_DIR, ".build", "bench"));
    const before = await startBus({ bundle, dir, vars: VARS });
    const anyone = await Agent.create({ url: before.url });
    await anyone.announce("s0", "agent", { name: "agent" }); // makes the shard's tables
    await before.stop();
    await fill(join(dir, "objects"), listed, hidden);
    const bus = await startBus({ bundle, dir, vars: VARS });
    try {
      const agent = await Agent.create({ url: bus.url });
      await agent.roster(undefined, { limit: 1 });
      const times: PageTime[] = [];
      let cursor: string | undefined;
      for (const limit of LIMITS) {
        const [first, again]: number[][] = [[], []];
        for (let page = 0; page < PAGES; page++) {
          const at = { limit, ...(cursor === undefined ? {} : { cursor }) };
          first!.push(await timed(() => agent.roster(undefined, at)));
          const startMs = performance.now();
          const { body } = await agent.roster(undefined, at);
          again!.push(performance.now() - startMs);
          cursor = (body as Json).cursor as string | undefined;
        }
        times.push({ listed, hidden, limit, firstMs: median(first!), againMs: median(again!) });
      }
      return times;
    } finally {
      await bus.stop();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function timed(ask: () => Promise<{ status: number }>): Promise<number> {
  const startMs = performance.now();
  const { status } = await ask();
  if (status !== 200) throw new Error(`a page was answered with ${status}`);
  return performance.now() - startMs;
}

async function fill(objects: string, listed: number, hidden: number): Promise<void> {
  const folder = (await readdir(objects)).find((name) => name.includes("DirectoryObject"))!;
  const file = (await readdir(join(objects, folder))).find((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))!;
  const database = new DatabaseSync(join(objects, folder, file));
  const put = database.prepare("INSERT INTO listed (key, is_shown) VALUES (?, ?)");
  database.exec("BEGIN");
  for (let n = 0; n < listed + hidden; n++) put.run(keyText(), n < listed ? 1 : 0);
  database.exec("COMMIT");
  database.close();
}

/** Looks like a key in the roster's order; nobody signs with it. */
function keyText(): string {
  return randomBytes(32).toString("base64url");
}
