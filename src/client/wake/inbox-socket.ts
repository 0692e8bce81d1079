/**
 * Claude Code's own inbox of a session: what is written to its socket begins a turn in an idle session, and is read between
 * two tool calls in a busy one. It answers nothing, so that it took the bytes proves no wake.
 */

import { connect } from "node:net";
import type { WakeWords } from "../tools/render-wake.ts";

/** Where the host listens, and what it wants to be told first. */
export interface InboxAddress {
  readonly socket: string;
  /** Required on Windows only. */
  readonly token?: string | undefined;
}

/** A local socket that is there answers at once. */
const WRITE_MAX_MS = 2_000;

/** @returns false: nobody took it */
export async function writeToInbox({ socket: path, token }: InboxAddress, { inbox }: WakeWords): Promise<boolean> {
  const lines = [
    ...(token === undefined ? [] : [{ type: "auth", token }]),
    { type: "user", message: { role: "user", content: inbox }, from: "interlink", priority: "next" },
  ];
  return new Promise((resolve) => {
    const socket = connect(path);
    const over = (isTaken: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(isTaken);
    };
    const timer = setTimeout(() => over(false), WRITE_MAX_MS);
    let isWritten = false;
    socket.once("connect", () => {
      const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
      socket.end(text, () => (isWritten = true));
    });
    socket.resume();
    socket.once("error", () => over(false));
    socket.once("close", () => over(isWritten));
  });
}
