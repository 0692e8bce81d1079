/** `interlink-edge inbox`: what came and no model has had, for a person. */

import process from "node:process";
import { parseSessionId } from "../../protocol/address.ts";
import { escapeInvisible } from "../../protocol/text.ts";
import type { InboxMessage } from "../state/inbox.ts";
import { isRunning, lookInto, sessionFilesHere, type SessionFile } from "../state/session-files.ts";
import { openState } from "../state/store.ts";
import { ageOf } from "../tools/ages.ts";
import { isoOf } from "../tools/escape.ts";
import { nameOf } from "../tools/render.ts";
import type { CommandRun } from "./command-line.ts";
import type { Asker } from "./asker.ts";
import { askerOf, type Desk } from "./desk.ts";
import { CLI_SESSION, fetchMail } from "./fetch-mail.ts";
import { furtherBus, leftOut, linesOfLeftOut, wordsOfPassedOver } from "./left-out.ts";
import { report, type ExitCode } from "./terminal.ts";

/** More than a person reads at once; the rest is shown the next time. */
const SHOWN_MAX = 200;

interface Waiting {
  readonly file: SessionFile;
  readonly messages: readonly InboxMessage[];
}

export async function showInbox(desk: Desk, { take }: CommandRun<"inbox">): Promise<ExitCode> {
  const { terminal, stateDirectory, me } = desk;
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const exit = take ? await fetchMail(desk, asker) : 0;
  const here = sessionFilesHere(stateDirectory, me);
  let passedOver = 0;
  const waiting = here.ours.map((file): Waiting => {
    // A session that runs shows its mail to its own model, and once.
    const isTaken = take && !isRunning(file);
    const messages = (isTaken ? takeOf(file) : undefined) ?? lookInto(file, ({ inbox }) => inbox.unread(SHOWN_MAX));
    if (messages === undefined) passedOver++;
    return { file, messages: messages ?? [] };
  });
  const all = waiting.flatMap(({ file, messages }) => messages.map((message) => ({ file, message })));
  report(
    terminal,
    { messages: all.map((each) => saidOf(asker, each)) },
    all.flatMap((each) => linesOf(asker, each)),
  );
  if (all.length === 0) terminal.err("Nothing unread here.");
  if (passedOver > 0) terminal.err(wordsOfPassedOver(passedOver));
  for (const line of linesOfLeftOut(leftOut(desk, here), "inbox")) terminal.err(line);
  if (!take) terminal.err("What no agent has fetched yet is on the bus: `interlink-edge inbox --take` fetches it.");
  return exit;
}

/** Marks them as read; undefined if the session has just begun. */
function takeOf({ path }: SessionFile): readonly InboxMessage[] | undefined {
  const nowMs = Date.now();
  const uid = process.geteuid?.();
  const opened = openState({ path, nowMs, ...(uid !== undefined && { uid }) });
  if ("refusal" in opened) return undefined;
  const { inbox } = opened.state;
  const { messages } = inbox.takeUnread({ max: SHOWN_MAX, maxBytes: Infinity }, nowMs);
  inbox.confirmHanded(messages.map(({ seq }) => seq));
  opened.state.close();
  return messages;
}

interface Shown {
  readonly file: SessionFile;
  readonly message: InboxMessage;
}

function saidOf({ addressing }: Asker, { file, message }: Shown): object {
  const { from, msg_id, text, task_id, status, in_reply_to, received_at_ms } = message;
  const { petname, fingerprint } = addressing.ref(from);
  const about = { ...(task_id && { task_id }), ...(status && { status }), ...(in_reply_to && { in_reply_to }) };
  return {
    from: petname,
    key: from,
    fingerprint,
    inbox: file.session,
    ...furtherBus(file),
    msg_id,
    ...about,
    received: isoOf(received_at_ms),
    text,
  };
}

function linesOf({ addressing }: Asker, { file, message }: Shown): string[] {
  const { session } = file;
  const inbox = parseSessionId(session) === CLI_SESSION ? "" : `, for session ${session}`;
  const { bus } = furtherBus(file);
  const there = bus === undefined ? "" : ` on ${bus}`;
  const head = `${nameOf(addressing.ref(message.from))}, ${ageOf(Date.now() - message.received_at_ms)}${inbox}${there}:`;
  // Indented, so that no line of theirs reads as one of ours.
  return [head, ...message.text.split(/\r?\n/).map((line) => `    ${escapeInvisible(line)}`)];
}
