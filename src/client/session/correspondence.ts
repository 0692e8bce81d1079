/**
 * Writing to peers, and what became of it: which peer, which session, which task and message are meant, then the
 * outbox. An id that is not one stores nothing.
 */

import { createHash } from "node:crypto";
import { parseRoute, type Key, type SessionId } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";
import { isRefusal } from "../../protocol/refusal.ts";
import type { Timers } from "../bus/timers.ts";
import type { Outgoing } from "../state/outbox-table.ts";
import type { State } from "../state/store.ts";
import type { Task } from "../state/tasks.ts";
import type { Addressing } from "./addressing.ts";
import { isToolRefusal, type Agent, type PeerRef, type SendRequest, type Sent, type ToolRefusal } from "./agent.ts";
import { isAutomaticReply } from "./automatic-reply.ts";
import type { Guard } from "./guard.ts";
import type { Outbox } from "./outbox.ts";
import type { Sender } from "./sender.ts";
import { shownOf, wholeOf } from "./showing.ts";
import { ofMessage } from "./tool-refusal.ts";

export interface CorrespondenceOptions {
  readonly state: State;
  readonly outbox: Outbox;
  readonly sender: Sender;
  readonly addressing: Addressing;
  readonly timers: Timers;
  readonly session: SessionId;
  readonly guard: Guard;
  /** What became of a message is told by the answer itself. */
  readonly onTold: (msg_id: string) => void;
}

type Told = Exclude<Awaited<ReturnType<Agent["history"]>>, ToolRefusal>["entries"][number];

/** How long a call waits for the bus's word; then the message is told as pending, which it is. */
const ANSWER_WAIT_MS = 2_000;
/** Unsent messages in one answer. */
const UNSENT_MAX = 200;
/** Ids offered for one that is not there. */
const CANDIDATES_MAX = 5;

export class Correspondence {
  readonly #options: CorrespondenceOptions;

  constructor(options: CorrespondenceOptions) {
    this.#options = options;
  }

  async send(request: SendRequest): Promise<Sent | ToolRefusal> {
    const { addressing, outbox, timers, guard, state } = this.#options;
    const { text, status, idempotencyKey } = request;
    const peer = addressing.find(request.to);
    if (isToolRefusal(peer)) return peer;
    if (status !== undefined && request.task_id === undefined) return { code: "bad_field", detail: "status" };
    const msg_id = idempotencyKey === undefined ? undefined : this.#idOf(idempotencyKey);
    const repeated = msg_id === undefined ? undefined : this.#repeated(msg_id, peer, text);
    if (repeated) return repeated;

    const task = this.#taskOf(peer.key, request);
    if (task && isToolRefusal(task)) return task;
    const answered = this.#answered(peer.key, request.in_reply_to);
    if (isToolRefusal(answered)) return answered;
    const writer = answered.session ?? this.#writerOf(task?.known);
    const routed = await addressing.route(peer.key, { asked: request.session, writer });
    if (isToolRefusal(routed)) return routed;

    const about = {
      ...(task && { task_id: task.task_id }),
      ...(answered.msg_id !== undefined && { in_reply_to: answered.msg_id }),
    };
    const draft = {
      to: routed.to,
      text,
      ...about,
      ...(status !== undefined && { status }),
      ...(msg_id !== undefined && { msg_id }),
    };
    const queued = await outbox.enqueue(draft, timers.now(), () => {
      // As the task stands now: another call may have ended it since.
      const known = task && state.tasks.get(peer.key, task.task_id);
      const isAutomatic = isAutomaticReply({ hasRead: guard.hasRead, task: known, status });
      return isAutomatic ? guard.spendReply(peer.key) : undefined;
    });
    if (isToolRefusal(queued)) return queued;
    if (isRefusal(queued)) return ofMessage(queued, text);
    return { peer, msg_id: queued.msg_id, life: await this.dispatch(queued), route: routed.taken, ...about };
  }

  async cancelTask({ reason, ...request }: Parameters<Agent["cancelTask"]>[0]): Promise<Sent | ToolRefusal> {
    return this.send({ ...request, status: "canceled", text: reason || "canceled" });
  }

  /** Sends what was queued, and waits a little for the bus's word. */
  async dispatch({ msg_id, life: before }: Pick<Outgoing, "msg_id" | "life">): Promise<Outgoing["life"]> {
    const { sender, state, onTold } = this.#options;
    sender.kick();
    if (before.state === "pending") await sender.tried(msg_id, ANSWER_WAIT_MS);
    onTold(msg_id);
    return state.outbox.get(msg_id)?.life ?? before;
  }

  async status(idPrefix: string): ReturnType<Agent["messageStatus"]> {
    const { state, sender, addressing, onTold } = this.#options;
    const found = oneOf(idPrefix, state.outbox.find(idPrefix));
    if (isToolRefusal(found)) return found;
    const { msg_id, peer, life } = found;
    if (life.state === "stored") await sender.refresh(msg_id, peer, life.buses);
    onTold(msg_id);
    return { msg_id, peer: addressing.ref(peer), life: state.outbox.get(msg_id)?.life ?? life };
  }

  async history({ with: name, max, before }: Parameters<Agent["history"]>[0]): ReturnType<Agent["history"]> {
    const { state, addressing } = this.#options;
    const peer = addressing.find(name);
    if (isToolRefusal(peer)) return peer;
    const page = state.history(peer.key, { max, ...(before !== undefined && { beforeSeq: before }) });
    const entries = page.entries.flatMap((entry): Told[] => {
      if (entry.direction === "in") {
        return [{ direction: "in", ...shownOf(entry.message, peer, wholeOf(entry.message.text)) }];
      }
      const { message, outgoing, at_ms } = entry;
      if (message.kind !== "message") return []; // a knock is no talk
      const { msg_id, text: body, task_id } = message;
      const about = task_id === undefined ? {} : { task_id };
      return [{ direction: "out", msg_id, at_ms, body, life: outgoing.life, ...about }];
    });
    return { peer, entries, ...(page.before_seq !== undefined && { before: page.before_seq }) };
  }

  async listPending(): ReturnType<Agent["listPending"]> {
    const { state, addressing } = this.#options;
    return {
      unsent: state.outbox.pending(UNSENT_MAX).map(({ msg_id, peer, life }) => {
        return { msg_id, peer: addressing.ref(peer), life };
      }),
      tasks: state.tasks.open().map(({ task_id, peer, state: standing, owes, changed_at_ms }) => {
        return { task_id, peer: addressing.ref(peer), state: standing, owed_by: owes, changed_at_ms };
      }),
    };
  }

  /** The same call of the host has the same id, in this session. */
  #idOf(idempotencyKey: string): string {
    const { session } = this.#options;
    return createHash("sha256").update(`send ${session} ${idempotencyKey}`).digest("hex").slice(0, 32);
  }

  /** A call that was made before: the message is there, wherever it would go today. */
  #repeated(msg_id: string, peer: PeerRef, text: string): Sent | ToolRefusal | undefined {
    const known = this.#options.state.outbox.get(msg_id);
    if (!known) return undefined;
    const { text: before, task_id, in_reply_to } = JSON.parse(known.payload) as Message;
    const isSame = known.peer === peer.key && before === text;
    if (!isSame) return { code: "bad_field", detail: "idempotency_key" };
    const to = parseRoute(known.route);
    const session = isRefusal(to) ? undefined : to.session;
    return {
      peer,
      msg_id,
      life: known.life,
      route: { to: "unseen", ...(session !== undefined && { session }) },
      ...(task_id !== undefined && { task_id }),
      ...(in_reply_to !== undefined && { in_reply_to }),
    };
  }

  /** A word on a task needs a task that is there; without one it begins one. */
  #taskOf(peer: Key, { task_id, status }: SendRequest): { task_id: string; known?: Task } | ToolRefusal | undefined {
    if (task_id === undefined) return undefined;
    if (task_id === "") return { code: "bad_field", detail: "task_id" };
    const { tasks } = this.#options.state;
    const whole = tasks.get(peer, task_id);
    if (whole) return { task_id, known: whole };
    if (status === undefined) return { task_id };
    const open = tasks.open().filter((task) => task.peer === peer);
    const matching = open.filter((task) => task.task_id.startsWith(task_id));
    const [only] = matching;
    if (only && matching.length === 1) return { task_id: only.task_id, known: only };
    const candidates = (matching.length > 1 ? matching : open).slice(0, CANDIDATES_MAX).map((task) => task.task_id);
    return { code: matching.length > 1 ? "ambiguous" : "unknown_task", candidates };
  }

  /** The message that is answered: theirs, or one of our own to them. */
  #answered(peer: Key, idPrefix: string | undefined): { msg_id?: string; session?: SessionId } | ToolRefusal {
    if (idPrefix === undefined) return {};
    const { inbox, outbox } = this.#options.state;
    const theirs = inbox.find(idPrefix).filter(({ from }) => from === peer);
    const ours = outbox.find(idPrefix).filter((each) => each.peer === peer && each.kind === "message");
    const found = oneOf<{ msg_id: string; session?: SessionId }>(idPrefix, [
      ...theirs,
      ...ours.map(({ msg_id }) => ({ msg_id })),
    ]);
    if (isToolRefusal(found)) return found;
    return { msg_id: found.msg_id, ...(found.session !== undefined && { session: found.session }) };
  }

  /** A task goes on with the session that gave it, or last spoke of it. */
  #writerOf(task: Task | undefined): SessionId | undefined {
    if (!task) return undefined;
    const { inbox } = this.#options.state;
    for (const id of [task.last_msg_id, task.opening_msg_id]) {
      const message = inbox.find(id).find(({ msg_id, from }) => msg_id === id && from === task.peer);
      if (message?.session !== undefined) return message.session;
    }
    return undefined;
  }
}

/** The one that an id, or a beginning of one, names. A whole id comes before what merely begins so. */
export function oneOf<Entry extends { readonly msg_id: string }>(
  id: string,
  found: readonly Entry[],
): Entry | ToolRefusal {
  if (id === "") return { code: "unknown_message" };
  const whole = found.filter(({ msg_id }) => msg_id === id);
  const matching = whole.length > 0 ? whole : found;
  const [only] = matching;
  if (!only) return { code: "unknown_message" };
  if (matching.length === 1) return only;
  return { code: "ambiguous", candidates: matching.slice(0, CANDIDATES_MAX).map(({ msg_id }) => msg_id) };
}
