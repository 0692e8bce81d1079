/** What commands need to know of the machine and the process; bin.ts reads it. */

import { existsSync } from "node:fs";
import type { Place } from "../hosts/host.ts";

export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  /** The login name of the person. */
  readonly user: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly nodeVersion: string;
  /** How this very program is started. */
  readonly node: string;
  readonly flags: readonly string[];
  readonly script: string;
  /** All that is typed or piped into the command. */
  readonly stdin: () => Promise<string>;
  /** Settles when the process is asked to end; from then on it is not ended for us. */
  readonly untilAsked: () => Promise<unknown>;
}

export function placeOf({ platform, home, env }: Machine): Place {
  return { platform, home, env, has: existsSync };
}
