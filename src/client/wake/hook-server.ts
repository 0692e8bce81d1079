/** The agent's end of what hooks ask: bounded in lines, in connections and in time, so that no hook can hold it up. */

import { chmodSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Log } from "../tools/tool.ts";
import { removeName, stampOf } from "./dial.ts";
import { addressesOf, type HookPlace, type HostNames } from "./hook-address.ts";
import { LINE_MAX_CHARS, readRequest, type HookAnswer, type HookRequest } from "./hook-line.ts";

/** A hook of one session at a time, and some that are just ending. */
const CONNECTIONS_MAX = 16;
const REQUEST_MAX_MS = 2_000;

/** A hook that waits. */
export interface Waiting {
  answer(answer: HookAnswer): void;
  /** Says the last word. */
  end(answer?: HookAnswer): void;
  onGone(gone: () => void): void;
}

export interface HookEars {
  /** @returns what to say; undefined: it is kept waiting */
  asked(request: HookRequest, waiting: Waiting): Promise<HookAnswer | undefined>;
}

export class HookServer {
  readonly #place: HookPlace;
  readonly #ears: HookEars;
  readonly #log: Log;
  readonly #servers = new Map<string, Server>();
  readonly #sockets = new Set<Socket>();

  constructor(place: HookPlace, ears: HookEars, log: Log) {
    this.#place = place;
    this.#ears = ears;
    this.#log = log;
  }

  /** Listens under these names too. One that another agent of the same host holds stays that one's. */
  async listen(names: HostNames): Promise<void> {
    await Promise.all(addressesOf(this.#place, names).map((address) => this.#listenOn(address)));
  }

  close(): void {
    for (const server of this.#servers.values()) server.close();
    this.#servers.clear();
    // The last word still goes out.
    for (const socket of this.#sockets) socket.destroySoon();
  }

  async #listenOn(address: string): Promise<void> {
    if (this.#servers.has(address)) return;
    const server = createServer((socket) => this.#serve(socket));
    this.#servers.set(address, server);
    server.maxConnections = CONNECTIONS_MAX;
    const isOpen = (await tryListen(server, address)) || (await this.#replace(server, address));
    if (!isOpen) {
      this.#servers.delete(address);
      this.#log("hooks_elsewhere");
    }
    server.on("error", (fault) => this.#log("hooks", { error: String(fault) }));
  }

  /** A killed process leaves its socket behind; nobody answers there. */
  async #replace(server: Server, address: string): Promise<boolean> {
    if (this.#place.platform === "win32") return false;
    const found = stampOf(address);
    if (found) {
      if (!(await isRefused(address))) return false;
      removeName(address, found);
    }
    // Whoever was quicker has it, and keeps it.
    return tryListen(server, address);
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.setEncoding("utf8");
    const timer = setTimeout(() => socket.destroy(), REQUEST_MAX_MS);
    let text = "";
    const onData = (chunk: string) => {
      text += chunk;
      const end = text.indexOf("\n");
      if (end < 0 && text.length <= LINE_MAX_CHARS) return;
      clearTimeout(timer);
      socket.off("data", onData);
      socket.resume();
      const request = end < 0 ? undefined : readRequest(text.slice(0, end), this.#place.secret);
      if (!request) return void socket.destroy();
      void this.#answer(request, socket);
    };
    socket.on("data", onData);
    socket.once("close", () => clearTimeout(timer));
  }

  async #answer(request: HookRequest, socket: Socket): Promise<void> {
    const write = (answer: HookAnswer) => `${JSON.stringify(answer)}\n`;
    const waiting: Waiting = {
      answer: (answer) => void socket.write(write(answer)),
      end: (answer) => void (answer ? socket.end(write(answer)) : socket.end()),
      onGone: (gone) => socket.once("close", gone),
    };
    try {
      const answer = await this.#ears.asked(request, waiting);
      if (answer) waiting.end(answer);
    } catch (fault) {
      this.#log("hook", { ask: request.ask, error: String(fault) });
      socket.destroy();
    }
  }
}

async function tryListen(server: Server, address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const failed = () => resolve(false);
    server.once("error", failed);
    server.listen(address, () => {
      server.off("error", failed);
      if (!address.startsWith("\\\\")) chmodSync(address, 0o600);
      resolve(true);
    });
  });
}

/** True if nobody listens; one that is too busy to take us does. */
async function isRefused(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.once("error", (fault: NodeJS.ErrnoException) => resolve(fault.code === "ECONNREFUSED"));
  });
}
