/** The production code, loaded behind the hooks: everything else here imports only its types. */

import type { parseBusUrl } from "../../src/client/bus/bus-url.ts";
import type { BusClock } from "../../src/client/bus/clock.ts";
import type { BusHttp } from "../../src/client/bus/http.ts";
import type { openSession } from "../../src/client/session/session.ts";
import type { loadIdentity } from "../../src/client/trust/identity-file.ts";
import type { BusCode } from "./platform/bus.ts";

export interface Code {
  readonly bus: BusCode;
  readonly openSession: typeof openSession;
  readonly loadIdentity: typeof loadIdentity;
  readonly BusHttp: typeof BusHttp;
  readonly BusClock: typeof BusClock;
  readonly parseBusUrl: typeof parseBusUrl;
}

export async function loadCode(): Promise<Code> {
  const bus = await import("../../src/worker/index.ts");
  const session = await import("../../src/client/session/session.ts");
  const identity = await import("../../src/client/trust/identity-file.ts");
  const http = await import("../../src/client/bus/http.ts");
  const clock = await import("../../src/client/bus/clock.ts");
  const url = await import("../../src/client/bus/bus-url.ts");
  return {
    bus: bus as unknown as BusCode,
    openSession: session.openSession,
    loadIdentity: identity.loadIdentity,
    BusHttp: http.BusHttp,
    BusClock: clock.BusClock,
    parseBusUrl: url.parseBusUrl,
  };
}
