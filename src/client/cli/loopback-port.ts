/** A port of this machine, and whether a bus answers on it. */

import { once } from "node:events";
import { get } from "node:http";
import { createServer } from "node:net";

const LOOPBACK = "127.0.0.1";

/** True if nothing listens on a loopback port. */
export async function isFree(port: number, host = LOOPBACK): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, host), "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

/** The status of GET /health, or undefined while nothing answers. */
export function askHealth(port: number, host = LOOPBACK): Promise<number | undefined> {
  return new Promise((resolve) => {
    const request = get({ host, port, path: "/health", agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", () => resolve(undefined));
  });
}
