/** Sockets inside workerd: dialled through the door, as any client does. */

import { exports } from "cloudflare:workers";
import { clock } from "../../src/durable/clock.ts";
import { Agent } from "./agent.ts";
import { SessionSocket, type Dialer, type Ears, type SocketOptions, type Wire } from "./session-socket.ts";

/** An origin of the AUDIENCE in wrangler.toml. */
export const BUS = "http://127.0.0.1:9440";

/** Through the door, as any client. */
export const throughDoor: Dialer = async (url, target, protocols, ears) => {
  const door = (exports as unknown as { default: Fetcher }).default;
  const headers = { upgrade: "websocket", "sec-websocket-protocol": protocols.join(", ") };
  return listen(await door.fetch(url + target, { headers }), ears);
};

/** `allowHalfOpen`: a peer that is gone, so that nothing answers a close. */
export function listen(response: Response, ears: Ears, options: { allowHalfOpen?: boolean } = {}): Wire {
  const socket = response.webSocket;
  if (!socket) throw new Error(`the handshake was answered with ${response.status}`);
  socket.addEventListener("message", ({ data }) => {
    ears.message(data as string);
  });
  socket.addEventListener("close", ({ code, reason }) => {
    ears.closed(code, reason);
  });
  socket.accept(options);
  return {
    send: (data) => {
      socket.send(data);
    },
    close: (code, reason) => {
      socket.close(code, reason);
    },
    terminate: () => {
      throw new Error("a socket inside workerd cannot vanish");
    },
  };
}

export const newAgent = () => Agent.create({ url: BUS, now: () => clock.now() });

export const open = (agent: Agent, id: string, options: SocketOptions = {}) =>
  SessionSocket.open(agent, id, { dialer: throughDoor, ...options });
