/** A hook's end: it asks the agent of its session, and gives up at once where there is none. */

import type { Socket } from "node:net";
import { dial } from "./dial.ts";
import { addressesOf, type HookPlace, type HostNames } from "./hook-address.ts";
import { LINE_MAX_CHARS, readAnswer, type HookAnswer, type HookRequest } from "./hook-line.ts";

/** A hook holds a host up for as long as it runs. */
export const ANSWER_MAX_MS = 1_200;

/** A question that was answered; more may come. */
export interface Talk {
  readonly first: HookAnswer;
  /** The next answer, however long it takes; undefined: the agent is gone. */
  next(): Promise<HookAnswer | undefined>;
  close(): void;
}

/** @returns undefined: no agent of this session answers */
export async function askAgent(place: HookPlace, names: HostNames, request: HookRequest): Promise<Talk | undefined> {
  for (const address of addressesOf(place, names)) {
    const socket = await dial(address, ANSWER_MAX_MS);
    if (!socket) continue;
    socket.setEncoding("utf8");
    socket.write(`${JSON.stringify({ ...request, secret: place.secret })}\n`);
    const next = answersOf(socket);
    const first = await Promise.race([next(), timeout(ANSWER_MAX_MS)]);
    if (first) return { first, next, close: () => socket.destroy() };
    socket.destroy();
    return undefined;
  }
  return undefined;
}

function answersOf(socket: Socket): () => Promise<HookAnswer | undefined> {
  const lines: string[] = [];
  let text = "";
  let isOver = false;
  let look = () => {};
  socket.on("data", (chunk: string) => {
    text += chunk;
    const parts = text.split("\n");
    text = parts.pop()!;
    lines.push(...parts);
    if (text.length > LINE_MAX_CHARS) socket.destroy();
    look();
  });
  const over = () => {
    isOver = true;
    look();
  };
  for (const event of ["end", "close", "error"] as const) socket.on(event, over);
  return () =>
    new Promise((resolve) => {
      look = () => {
        const line = lines.shift();
        if (line !== undefined) resolve(readAnswer(line));
        else if (isOver) resolve(undefined);
      };
      look();
    });
}

async function timeout(ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(undefined), ms).unref();
  });
}
