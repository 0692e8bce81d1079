#!/usr/bin/env node
/**
 * The package's bin: looks at the Node beneath before anything is loaded that an older one does not have.
 *
 * No static import, nor syntax younger than `import()`, so that an old Node gets as far as the sentence.
 */

/** Node is too old. Documented: hosts show a code and rarely the sentence. */
const NODE_TOO_OLD = 3;

/** From where on `node:sqlite` needs no flag; `engines` of package.json says the same, and a test compares. */
const NODE_WANTED = "22.13, 23.4 or later";
function isEnough([major, minor]: number[]): boolean {
  return major! >= 24 || (major === 23 && minor! >= 4) || (major === 22 && minor! >= 13);
}

function launch(): void {
  const { node } = process.versions;
  if (!isEnough(node.split(".").map(Number))) {
    process.stderr.write(`interlink-edge needs Node ${NODE_WANTED}; this is ${node}.\n`);
    process.exitCode = NODE_TOO_OLD;
    return;
  }
  keepSqliteQuiet();
  void import("./bin.ts");
}

/** Node 22 warns of `node:sqlite` at each start, into the log of the host. This one warning is known; all others stay. */
function keepSqliteQuiet(): void {
  const emitWarning = process.emitWarning.bind(process) as (...args: unknown[]) => void;
  process.emitWarning = (...args: unknown[]): void => {
    const [warning, type] = args;
    if (type === "ExperimentalWarning" && String(warning).startsWith("SQLite ")) return;
    emitWarning(...args);
  };
}

launch();
