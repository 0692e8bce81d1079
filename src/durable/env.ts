/** The bindings of a deployment; its variables are read by settings.ts. */

import type { DirectoryObject } from "./directory-object.ts";
import type { IdentityObject } from "./identity-object.ts";

export interface Env {
  readonly IDENTITIES: DurableObjectNamespace<IdentityObject>;
  readonly DIRECTORY: DurableObjectNamespace<DirectoryObject>;
  readonly [variable: string]: unknown;
}
