import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig, type TestProjectConfiguration } from "vitest/config";

/** Test files of pure functions share a worker: nothing in them can be left behind for the next. */
const PURE = { include: ["test/protocol/**/*.test.ts"], isolate: false };

const workerd = () =>
  cloudflareTest({
    wrangler: { configPath: "./wrangler.toml" },
    miniflare: { bindings: { ADMISSION: "open", LOG: "faults" } },
  });

/** Bounds so small that a walk of some steps meets them, and how far to walk: see test/model/identity.test.ts. */
const modelled = (OVERFLOW: "refuse" | "evict") =>
  cloudflareTest({
    wrangler: { configPath: "./wrangler.toml" },
    miniflare: {
      bindings: {
        ADMISSION: "open",
        LOG: "faults",
        OVERFLOW,
        INBOX_MAX_MESSAGES: "4",
        INBOX_MAX_BYTES: "1000",
        SENDER_SHARE: "3",
        INBOXES_MAX: "2",
        SESSIONS_MAX: "3",
        KNOCKS_MAX: "2",
        RATE_PER_S: "100000",
        MODEL_RUNS: process.env["MODEL_RUNS"] ?? "",
        MODEL_SEED: process.env["MODEL_SEED"] ?? "",
        MODEL_SHRINK: process.env["MODEL_SHRINK"] ?? "",
      },
    },
  });

const globalSetup = ["test/support/build-bundle.ts"];

/** Hundreds of reconnects and kills, the longest of the bus's own. */
const CHURN = "test/process/sockets.test.ts";

/** Pure rooms run in both runtimes, objects in workerd; whole processes are driven from Node. */
const projects: TestProjectConfiguration[] = [
  { test: { name: "node-pure", ...PURE } },
  { plugins: [workerd()], test: { name: "workerd-pure", ...PURE } },
  { plugins: [workerd()], test: { name: "workerd", include: ["test/durable/**/*.test.ts"] } },
  { plugins: [modelled("refuse")], test: { name: "model", include: ["test/model/**/*.test.ts"] } },
  { plugins: [modelled("evict")], test: { name: "model-evict", include: ["test/model/**/*.test.ts"] } },
  {
    test: {
      name: "node",
      include: ["test/*.test.ts", "test/{process,history}/**/*.test.ts"],
      exclude: [CHURN],
      globalSetup,
    },
  },
  // Apart, so that the bus's own tests stay under a minute: `npm run test:rest`.
  { test: { name: "churn", include: [CHURN], globalSetup } },
  { test: { name: "client", include: ["test/client/**/*.test.ts"], globalSetup } },
  { test: { name: "scripts", include: ["test/scripts/**/*.test.ts"], globalSetup } },
  // Damaged inputs, more of them with a number, the same ones with a seed: `npm run fuzz`.
  { test: { name: "fuzz", include: ["test/fuzz/**/*.test.ts"], globalSetup } },
  // Installs by npm, and fetches two more versions of Node once: `npm run test:package`.
  { test: { name: "package", include: ["test/package/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 300_000 } },
  // Compiles the original Rust client once, if there is Cargo: `npm run test:interop`.
  {
    test: {
      name: "interop",
      include: ["test/interop/**/*.test.ts"],
      globalSetup: [...globalSetup, "test/interop/install-rust-client.ts"],
    },
  },
  // Real hosts on loopback, where their packages are installed: `npm run test:hosts`.
  { test: { name: "hosts", include: ["test/hosts/**/*.test.ts"], globalSetup } },
  // Real processes, killed, stopped and cut off for a while: `npm run test:chaos`; at length `npm run chaos`.
  { test: { name: "chaos", include: ["test/chaos/**/*.test.ts"], globalSetup } },
  // Client and bus on one seeded scheduler, in processes of their own: `npm run test:simulation`; at length `npm run simulate`.
  { test: { name: "simulation", include: ["test/simulation/**/*.test.ts"] } },
  // Needs a minute of wall time: `npm run test:slow`.
  { test: { name: "slow", include: ["test/slow/**/*.test.ts"], globalSetup } },
];

export default defineConfig({ test: { projects } });
