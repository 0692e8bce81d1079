/** Loaded before an agent process: lets a test end it with a code, at any moment. */

import process from "node:process";

// Both are ignored, or end a process, where nobody listens.
process.on("SIGUSR2", () => process.exit(75));
process.on("SIGWINCH", () => process.exit(1));
