/** The tools of delegated work: call it off, and see what is open. */

import * as z from "zod/v4";
import { inputs, outputs, sentAnswer, sentFields, statusFields, statusOf } from "./fields.ts";
import { idempotencyKeyOf } from "./host-call.ts";
import { taskLine } from "./lines.ts";
import { nameOf, pendingSentence } from "./render.ts";
import { isNo, tool, type Tool } from "./tool.ts";

const cancelTask = tool({
  name: "cancel_task",
  title: "Call off a task",
  description:
    "Call off a task that you gave to a peer, or that a peer gave to you: writes to it with status canceled, which closes the task on both " +
    "sides. The peer learns of it when it reads its mail, so work may go on until then.",
  input: z.strictObject({
    to: inputs.peer,
    task_id: inputs.taskId,
    reason: z.string().min(1).max(4_096).optional().describe("Why, for the peer to read"),
  }),
  output: sentFields,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  async act({ to, task_id, reason }, { agent, context, now }) {
    const idempotencyKey = idempotencyKeyOf(context);
    const sent = await agent.cancelTask({
      to,
      task_id,
      ...(reason !== undefined && { reason }),
      ...(idempotencyKey !== undefined && { idempotencyKey }),
    });
    return isNo(sent) ? sent : sentAnswer(sent, now());
  },
});

const listPending = tool({
  name: "list_pending",
  title: "What is still open",
  description:
    "Messages of ours that no bus has stored yet (they are tried again by themselves; do not write them anew), and open tasks with who " +
    "owes the next word: us or the peer.",
  input: inputs.noArguments,
  output: z.object({
    unsent: z.array(statusFields).describe("Messages that no bus has stored"),
    tasks: outputs.lines.describe("One line of JSON for each open task"),
  }),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  async act(_args, { agent, now }) {
    const { unsent, tasks } = await agent.listPending();
    const messages = unsent.map((message) => statusOf(message, now()));
    const lines = tasks.map((task) => taskLine(task, now()));
    const waiting = unsent.map(({ msg_id, peer }, index) => {
      return `Message ${msg_id} for ${nameOf(peer)}: ${messages[index]!.feedback}`;
    });
    return {
      text: [pendingSentence(unsent.length, tasks), ...waiting, ...lines].join("\n"),
      fields: { unsent: messages, tasks: lines },
    };
  },
});

export const taskTools: readonly Tool[] = [cancelTask, listPending];
