/**
 * What wakes this session's host: the paths that there are, the one that is used, and what hooks of the host say. What is
 * decided is decided in chooser.ts, proof.ts, rebinding.ts and reminder.ts.
 */

import { randomBytes } from "node:crypto";
import { parseSessionId } from "../../protocol/address.ts";
import type { Timers } from "../bus/timers.ts";
import type { BusAgent } from "../session/buses.ts";
import type { UnreadMail } from "../session/wake-path.ts";
import { reminderText, wakeWords, type WakeWords } from "../tools/render-wake.ts";
import type { Log } from "../tools/tool.ts";
import { chooseWakePath, WAKE_PATHS, type WakeFacts, type WakePathName, type WakeWish } from "./chooser.ts";
import { queueToCodex } from "./codex-queue.ts";
import type { HookPlace, HostNames } from "./hook-address.ts";
import type { HookAnswer, HookRequest } from "./hook-line.ts";
import { HookServer, type Waiting } from "./hook-server.ts";
import { writeToInbox, type InboxAddress } from "./inbox-socket.ts";
import { provenPath } from "./lease.ts";
import { looked, NO_PROOF, woke, wordOf, type Proof } from "./proof.ts";
import type { ThreadSource } from "./rebinding.ts";
import { dueReminder, type Reminded } from "./reminder.ts";
import { NO_WAKE, type AgentStanding, type WakeStanding } from "./standing.ts";
import type { ThreadBook } from "./thread-book.ts";
import { Waiter } from "./waiter.ts";

/** What the host has said of itself at the start. */
export interface HostFacts extends HostNames {
  readonly token?: string | undefined;
}

export interface WakeDeskOptions {
  readonly wish: WakeWish;
  readonly host: HostFacts;
  /** Path or name of Codex; absent: there is none. */
  readonly codex?: string | undefined;
  readonly book: ThreadBook;
  /** The thread of Codex that called the process before. */
  readonly codexThread?: string | undefined;
  /** Absent: no hook can find us. */
  readonly place?: HookPlace | undefined;
  readonly timers: Timers;
  readonly log: Log;
}

/** What the MCP connection offers. */
export interface Connection {
  /** True while the client wants to know of changes of the inbox. */
  readonly isWatched: () => boolean;
  readonly update: () => Promise<void>;
  /** Absent: the era has no channels, or none was asked for. */
  readonly channel?: (text: string) => Promise<void>;
}

/** A host that did not take a wake may be stopped, or starting: it is tried again after this. */
const FAILED_FOR_MS = 600_000;
const ID_BYTES = 4;

export class WakeDesk {
  readonly #options: WakeDeskOptions;
  readonly #id = randomBytes(ID_BYTES).toString("hex");
  readonly #waiter = new Waiter();
  readonly #hooks: HookServer | undefined;
  readonly #proofs = new Map<WakePathName, Proof>();
  /** Paths that did not take what we wrote → the timer after which they are tried again. */
  readonly #failed = new Map<WakePathName, unknown>();
  readonly #reminded = new Map<string, Reminded>();
  #inbox: InboxAddress | undefined;
  #codexThread: string | undefined;
  #agent: BusAgent | undefined;
  #connection: Connection | undefined;
  #wasHuman = false;
  /** The session is another one now: the agent is to be opened anew. */
  onMove: () => void = () => {};
  /** Another process takes over: what waits for us is to ask that one. */
  isReplaced = false;

  constructor(options: WakeDeskOptions) {
    const { host, place, log } = options;
    this.#options = options;
    this.#codexThread = options.codexThread;
    if (host.socket !== undefined) this.#inbox = { socket: host.socket, token: host.token };
    if (!place) return;
    this.#hooks = new HookServer(place, { asked: (request, waiting) => this.#asked(request, waiting) }, log);
    void this.#hooks.listen({ socket: host.socket, pid: host.pid, thread: host.thread, agent: this.#id });
  }

  /** Called with each agent that was opened, before anybody has it. */
  attach(agent: BusAgent): void {
    this.#agent = agent;
    if (this.#wasHuman) agent.humanSeen();
    this.#wasHuman = false;
    agent.onMail({
      isHeard: () => this.#choice().active !== undefined,
      isTurn: () => ![undefined, "resource"].includes(this.#choice().active),
      wake: (mail) => void this.#wake(mail),
      looked: () => this.#looked(),
      proven: () => provenPath(this.#choice().active, this.#facts(), this.#proofs, this.#options.timers.now()),
    });
  }

  /** A connection of the client; the last one counts. */
  connected(connection: Connection): void {
    this.#connection = connection;
    for (const path of ["resource", "channel"] as const) this.#mend(path);
  }

  /** A call came: its host may name the thread in it. Runs before the agent is opened. */
  called(meta: Readonly<Record<string, unknown>> | undefined): void {
    const thread = meta?.["threadId"];
    if (typeof thread !== "string" || parseSessionId(thread) === undefined || thread === this.#codexThread) return;
    this.#codexThread = thread;
    this.#proofs.delete("codex_queue"); // a wake of the thread before says nothing of this one
    // One server for several threads stays that of the first.
    if (this.#options.book.isKnown) void this.#hooks?.listen({ thread });
    else this.#follow("startup", thread);
    this.#renew("codex_queue");
  }

  standing(): WakeStanding {
    const { active } = this.#choice();
    if (active === undefined) return NO_WAKE;
    const proof = this.#proofs.get(active) ?? NO_PROOF;
    const nowMs = this.#options.timers.now();
    const age = proof.proven_at_ms === undefined ? {} : { proven_age_ms: Math.max(0, nowMs - proof.proven_at_ms) };
    return { path: active, proof: wordOf(proof, nowMs), ...age };
  }

  close(): void {
    for (const path of this.#failed.keys()) this.#mend(path);
    if (!this.isReplaced) this.#waiter.dismiss("closed");
    this.#hooks?.close();
  }

  #choice() {
    return chooseWakePath(this.#options.wish, this.#facts());
  }

  #facts(): WakeFacts {
    const isThere: Readonly<Record<WakePathName, boolean>> = {
      inbox_socket: this.#inbox !== undefined,
      stop_hook: this.#waiter.isThere,
      channel: this.#connection?.channel !== undefined,
      codex_queue: this.#codexThread !== undefined && this.#options.codex !== undefined,
      resource: this.#connection?.isWatched() ?? false,
    };
    const entries = WAKE_PATHS.map((path) => {
      const { unanswered } = this.#proofs.get(path) ?? NO_PROOF;
      return [path, { isThere: isThere[path], hasFailed: this.#failed.has(path), unanswered }];
    });
    return Object.fromEntries(entries) as WakeFacts;
  }

  async #wake(mail: UnreadMail): Promise<void> {
    const words = wakeWords(mail, randomBytes(ID_BYTES).toString("hex"));
    for (let { active } = this.#choice(); active !== undefined; { active } = this.#choice()) {
      const before = this.#proofs.get(active) ?? NO_PROOF;
      this.#proofs.set(active, woke(before, this.#options.timers.now()));
      const isMade = await this.#use(active, words).catch(() => false);
      this.#options.log("wake", { path: active, made: isMade, unread: mail.count });
      if (!isMade) {
        this.#proofs.set(active, before);
        this.#fail(active);
      }
      this.#agent?.wakeChanged();
      if (isMade) return;
    }
  }

  #fail(path: WakePathName): void {
    const timer = this.#options.timers.setTimeout(() => this.#renew(path), FAILED_FOR_MS);
    this.#failed.set(path, timer);
  }

  #mend(path: WakePathName): void {
    this.#options.timers.clearTimeout(this.#failed.get(path));
    this.#failed.delete(path);
  }

  async #use(path: WakePathName, words: WakeWords): Promise<boolean> {
    const { codex } = this.#options;
    switch (path) {
      case "inbox_socket":
        return this.#inbox !== undefined && writeToInbox(this.#inbox, words);
      case "stop_hook":
        return this.#waiter.wake(words);
      case "channel":
        await this.#connection?.channel?.(words.plain);
        return true;
      case "codex_queue":
        if (codex === undefined || this.#codexThread === undefined) return false;
        return queueToCodex({ program: codex, thread: this.#codexThread }, words);
      case "resource":
        await this.#connection?.update();
        return true;
    }
  }

  #looked(): void {
    const nowMs = this.#options.timers.now();
    for (const [path, proof] of this.#proofs) this.#proofs.set(path, looked(proof, nowMs));
    this.#agent?.wakeChanged();
  }

  async #asked(request: HookRequest, waiting: Waiting): Promise<HookAnswer | undefined> {
    switch (request.ask) {
      case "wait":
        return this.#arm(waiting);
      case "human":
        if (this.#agent) this.#agent.humanSeen();
        else this.#wasHuman = true;
        return { say: "done" };
      case "word":
        return this.#word();
      case "standing":
        return { say: "standing", ...(await this.#told()) };
      case "bind": {
        const { socket, token, source, thread } = request;
        if (socket !== undefined && socket !== this.#inbox?.socket) {
          this.#inbox = { socket, token };
          this.#proofs.delete("inbox_socket");
          await this.#hooks?.listen({ socket });
        }
        this.#follow(source, thread);
        this.#renew("inbox_socket");
        return { say: "done" };
      }
    }
  }

  #arm(waiting: Waiting): HookAnswer | undefined {
    const { active } = this.#choice();
    const isBetter = active === "inbox_socket" || active === "channel";
    if (this.#options.wish === "off") return { say: "no", why: "off" };
    if (isBetter) return { say: "no", why: active };
    this.#waiter.arm(waiting);
    this.#renew("stop_hook");
    return undefined;
  }

  /** A path is there anew: what it did before counts no more, and what waits may be told. */
  #renew(path: WakePathName): void {
    this.#mend(path);
    this.#agent?.heard();
    this.#agent?.wakeChanged();
  }

  async #word(): Promise<HookAnswer> {
    const nothing: HookAnswer = { say: "done" };
    if (!this.#agent) return nothing;
    const nowMs = this.#options.timers.now();
    const { tasks } = await this.#agent.listPending();
    const owed = tasks.map(({ task_id, peer, owed_by, changed_at_ms }) => {
      return { id: `${peer.key} ${task_id}`, petname: peer.petname, owed_by, changed_at_ms };
    });
    const due = dueReminder(owed, this.#reminded, nowMs);
    if (!due) return nothing;
    const { id, changed_at_ms } = due.task;
    this.#reminded.set(id, { changed_at_ms, at_ms: nowMs, times: due.time });
    return { say: "tell", text: reminderText(due) };
  }

  /** Without a word to a bus: it may be away, and a person waits. */
  async #told(): Promise<AgentStanding> {
    const { session } = this.#options.book;
    const { buses = [] } = (await this.#agent?.listBuses()) ?? {};
    const unread = buses.reduce((sum, bus) => sum + bus.unread, 0);
    return { agent: this.#id, ...(session !== undefined && { session }), ...this.standing(), unread };
  }

  #follow(source: ThreadSource, thread: string): void {
    void this.#hooks?.listen({ thread });
    if (!this.#options.book.follow(source, thread)) return;
    this.#options.log("session_moves", { source });
    this.onMove();
  }
}
