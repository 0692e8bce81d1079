/**
 * Which identities show a session to all: what the whole-bus roster pages through. It holds keys alone;
 * what is shown, and how old it is, is asked of each identity, so a heartbeat costs nothing here.
 */

import { DurableObject } from "cloudflare:workers";
import type { Key } from "../protocol/address.ts";
import type { DirectoryCalls, Methods } from "./calls.ts";
import type { Env } from "./env.ts";
import { hasSchema, migrate } from "./migrate.ts";

/** Append only; see migrate.ts. */
const STEPS = [`CREATE TABLE listed (key TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;`];

export class DirectoryObject extends DurableObject<Env> implements Methods<DirectoryCalls> {
  readonly #sql = this.ctx.storage.sql;

  list(json: string): string {
    const { key } = JSON.parse(json) as DirectoryCalls["list"]["call"];
    migrate(this.#sql, STEPS);
    this.#sql.exec("INSERT INTO listed (key) VALUES (?) ON CONFLICT DO NOTHING", key);
    return "{}";
  }

  unlist(json: string): string {
    const { key } = JSON.parse(json) as DirectoryCalls["unlist"]["call"];
    if (hasSchema(this.#sql)) this.#sql.exec("DELETE FROM listed WHERE key = ?", key);
    return "{}";
  }

  page(json: string): string {
    const { after, limit } = JSON.parse(json) as DirectoryCalls["page"]["call"];
    const keys = hasSchema(this.#sql)
      ? this.#sql
          .exec<{ key: Key }>("SELECT key FROM listed WHERE key > ? ORDER BY key LIMIT ?", after ?? "", limit)
          .toArray()
          .map((row) => row.key)
      : [];
    return JSON.stringify({ keys } satisfies DirectoryCalls["page"]["answer"]);
  }
}
