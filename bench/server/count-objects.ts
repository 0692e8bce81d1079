/**
 * Counts what the objects of a Worker do, from outside of its code: the bundle's exported classes are wrapped so that
 * every run of a constructor, handler or call counts, and every row that a statement writes. For the idle measure
 * only; the counts are the isolate's, so that reading them wakes no object.
 */

import type { ObjectCounters } from "../adapter.ts";
import { encodeHttp, HttpConnection } from "../wire/http-connection.ts";

const COUNTERS_PATH = "/bench-counters";

/** The export list that a bundle ends with. */
const EXPORT_LIST = /\nexport \{([^}]*)\};?\s*(?:\/\/# sourceMappingURL=\S*)?\s*$/;

/** @param source a module that ends with one export list, as bundles do: its default the Worker, the rest objects */
export function countObjects(source: string): string {
  const list = EXPORT_LIST.exec(source);
  if (!list) throw new Error("the module does not end with an export list");
  const names = list[1]!
    .split(",")
    .map((entry) => entry.trim().split(" as "))
    .filter(([local]) => local !== "");
  const worker = names.find(([, exported]) => exported === "default")?.[0];
  if (!worker) throw new Error("the module has no default export");
  const objects = names.filter(([, exported]) => exported !== "default");
  const counted = objects.map(([local], i) => `const benchObject${i} = benchCount(${local});`);
  const exported = objects.map(([local, name = local], i) => `benchObject${i} as ${name}`);
  return `${source.slice(0, list.index)}
${RUNTIME}
${counted.join("\n")}
const benchWorker = {
  ...${worker},
  fetch(request, env, ctx) {
    if (new URL(request.url).pathname === "${COUNTERS_PATH}") return Response.json(benchCounters);
    return ${worker}.fetch(request, env, ctx);
  },
};
export { ${[...exported, "benchWorker as default"].join(", ")} };
`;
}

/** Asks a counted Worker. */
export async function readCounters(port: number): Promise<ObjectCounters> {
  const connection = await new HttpConnection(port).open();
  try {
    const request = encodeHttp({ method: "GET", target: COUNTERS_PATH, host: `127.0.0.1:${port}` });
    return JSON.parse((await connection.request(request)).body) as ObjectCounters;
  } finally {
    connection.close();
  }
}

/** Plain JavaScript, since it goes into the bundle. */
const RUNTIME = `
const benchCounters = { runs: 0, rowsWritten: 0 };
function benchWatch(prototype, name, rowsOf) {
  const original = prototype[name];
  if (original.bench) return;
  prototype[name] = function (...args) {
    const result = original.apply(this, args);
    rowsOf(result);
    return result;
  };
  prototype[name].bench = true;
}
function benchCount(Class) {
  const Counted = class extends Class {
    constructor(ctx, env) {
      benchCounters.runs++;
      const storage = Object.getPrototypeOf(ctx.storage);
      // A cursor knows its rows once it is read, which is before this turn ends.
      benchWatch(Object.getPrototypeOf(ctx.storage.sql), "exec", (cursor) => {
        queueMicrotask(() => (benchCounters.rowsWritten += cursor.rowsWritten));
      });
      for (const name of ["put", "delete", "deleteAll", "setAlarm", "deleteAlarm"]) {
        benchWatch(storage, name, () => benchCounters.rowsWritten++);
      }
      super(ctx, env);
    }
  };
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(Class.prototype))) {
    if (name === "constructor" || typeof value !== "function") continue;
    Counted.prototype[name] = function (...args) {
      benchCounters.runs++;
      return value.apply(this, args);
    };
  }
  return Counted;
}`;
