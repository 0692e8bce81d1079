import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

/** Pure rooms run in both runtimes; objects and routes in workerd; whole processes are driven from Node. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "node",
          include: ["test/*.test.ts", "test/{protocol,process,scripts}/**/*.test.ts"],
          globalSetup: ["test/support/build-bundle.ts"],
        },
      },
      {
        // Needs wall time, a minute or more: `npm run test:slow`.
        test: { name: "slow", include: ["test/slow/**/*.test.ts"], globalSetup: ["test/support/build-bundle.ts"] },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: { ADMISSION: "open", LOG: "faults" } },
          }),
        ],
        test: { name: "workerd", include: ["test/{protocol,durable}/**/*.test.ts"] },
      },
    ],
  },
});
