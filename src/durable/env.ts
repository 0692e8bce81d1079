/** The bindings of a deployment; its variables are read by settings.ts. */

import type { DirectoryCalls, IdentityCalls, Methods } from "./calls.ts";

/** Objects by their calls, not by their classes: who calls one need not know how it is made. */
export interface Env {
  readonly IDENTITIES: DurableObjectNamespace<Methods<IdentityCalls> & Rpc.DurableObjectBranded>;
  readonly DIRECTORY: DurableObjectNamespace<Methods<DirectoryCalls> & Rpc.DurableObjectBranded>;
  readonly [variable: string]: unknown;
}
