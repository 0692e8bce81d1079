/** `cloudflare:workers`, as far as the bus uses it. */

import { VARIABLES } from "../platform/variables.ts";

export class DurableObject<Env = unknown> {
  protected readonly ctx: DurableObjectState;
  protected readonly env: Env;

  constructor(ctx: DurableObjectState, env: Env) {
    this.ctx = ctx;
    this.env = env;
  }
}

export const env: Readonly<Record<string, string>> = VARIABLES;
