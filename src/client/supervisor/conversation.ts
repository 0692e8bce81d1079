/**
 * What is said between host and process, whichever process that is: the host's requests wait, go on, and are answered truly when
 * a process dies; a new one is brought to where the host believes it to be. It holds no process and no clock.
 *
 * Invariant: every request of the host that it has not cancelled is answered once.
 */

import {
  agentDown,
  cancelledNotice,
  outcomeUnknown,
  RECONNECT,
  toolGone,
  type EndFacts,
  type LifecycleFailure,
} from "../tools/render-lifecycle.ts";
import { versionOf, type Answers } from "./answers.ts";
import { faultLine, lineOf, listChangedLine, reconnectResult, refusalResult, resultLine, withId } from "./banner.ts";
import { Calls, type Call } from "./calls.ts";
import { Catalogue } from "./catalogue.ts";
import { ChildRequests } from "./child-requests.ts";
import type { Ends } from "./ends.ts";
import { admit, OPENING, type Era } from "./era.ts";
import {
  CODES,
  ID_IN_USE,
  isId,
  readFrame,
  type Id,
  type Notification,
  type Params,
  type Request,
  type Response,
} from "./frame.ts";
import { Greeting, listOf, type Question } from "./greeting.ts";
import { Listens } from "./listens.ts";
import { News } from "./news.ts";
import { Remembered } from "./remembered.ts";
import { repeatOf, takenBy, withCallId } from "./retry.ts";

export class Conversation {
  readonly #ends: Ends;
  readonly #prefix: string;
  readonly #calls = new Calls();
  readonly #listens = new Listens();
  readonly #requests = new ChildRequests();
  readonly #catalogue: Catalogue;
  readonly #news = new News();
  /** What the next process is told of this one. */
  readonly remembered = new Remembered();
  #era: Era = OPENING;
  #isInitialized = false;
  #child: Greeting | undefined;
  #reconnects: Id[] = [];
  #keyed = 0;

  /** @param prefix of ids that no host can guess */
  constructor(answers: Answers, prefix: string, ends: Ends) {
    this.#catalogue = new Catalogue(answers);
    this.#prefix = prefix;
    this.#ends = ends;
  }

  /** Bytes that wait for a process. */
  queuedBytes = () => this.#calls.queuedBytes;

  /** True once a request has settled what the host speaks. */
  get isSettled(): boolean {
    return this.#era.at !== "opening";
  }

  fromHost(line: Uint8Array): void {
    const frame = readFrame(line);
    switch (frame.kind) {
      case "wrong":
        return this.#ends.toHost(faultLine(null, frame.fault));
      case "request":
        return this.#onRequest(frame, line);
      case "notification":
        return this.#onNotification(frame, line);
      case "response": {
        const own = this.#requests.answered(frame.id);
        if (own !== undefined && this.#child) this.#ends.toChild(withId(line, own));
        return;
      }
      case "stray":
        return;
    }
  }

  fromChild(line: Uint8Array): void {
    const frame = readFrame(line);
    switch (frame.kind) {
      case "wrong":
      case "stray":
        return this.#ends.log("child_line", { why: frame.kind });
      case "request":
        return this.#ends.toHost(withId(line, this.#requests.ask(frame.id)));
      case "notification":
        return this.#onChildNotification(frame, line);
      case "response":
        return this.#onChildResponse(frame, line);
    }
  }

  /** A process runs, and nothing was said to it yet. */
  started(generation: number): void {
    this.#child = new Greeting(generation, this.#prefix);
    this.#greet();
  }

  /** It is gone, and all that it wrote was read. @param facts absent: somebody asked for it, and is answered */
  ended(facts?: EndFacts): void {
    this.#child = undefined;
    this.#listens.died();
    if (facts) this.#news.ended(facts);
    for (const requestId of this.#requests.died()) {
      const params = { requestId, reason: "The agent process that asked has ended" };
      this.#ends.toHost(lineOf({ method: "notifications/cancelled", params }));
    }
    for (const call of this.#calls.died()) this.#refuse(call, outcomeUnknown(call.tool));
  }

  /** Nothing is started for a time: who waits is told so. */
  refuseQueue(): void {
    const down = this.#ends.down();
    if (!down) return;
    for (const call of this.#calls.refuse()) {
      // What a process had before is not known not to be done.
      const mayBeDone = call.tries > 0 && call.repeat !== "free";
      this.#refuse(call, mayBeDone ? outcomeUnknown(call.tool) : agentDown(down));
    }
    for (const id of this.#reconnects.splice(0)) this.#result(id, refusalResult(agentDown(down)));
  }

  #onRequest(request: Request, line: Uint8Array): void {
    const { id, method, params } = request;
    if (this.#calls.has(id) || this.#listens.has(id)) return this.#ends.toHost(faultLine(id, ID_IN_USE));
    const { era, admission } = admit(this.#era, request, this.#catalogue.revisions);
    if (admission.as === "refused") return this.#ends.toHost(faultLine(id, admission.fault));
    if (admission.as === "pong") return this.#result(id, {});
    this.#era = era;
    if (admission.as === "answered") this.#result(id, this.#catalogue.answer(admission.what, params, era));
    this.#ends.want();
    if (this.#child && !this.#child.isFor(era)) this.#greet();
    else if (admission.as === "answered") this.#renew(admission.what, params);
    if (admission.as !== "forwarded") return;
    if (method === "tools/call" && params["name"] === RECONNECT) {
      this.#reconnects.push(id);
      return this.#ends.reconnect();
    }
    if (era.at === "modern" && method === "subscriptions/listen") this.#listens.listen(request, line);
    else this.#take(request, line);
    this.#flush();
  }

  /** Asks the process what the host was just answered, unless its greeting will. */
  #renew(what: "initialize" | "discover" | "tools", params: Params): void {
    if (this.#child?.stage !== "done" || what === "initialize") return;
    this.#ask(this.#child.ask(what, what === "tools" ? "tools/list" : "server/discover", params));
  }

  #take(request: Request, line: Uint8Array): void {
    const repeat = repeatOf(request, this.#catalogue.readers);
    const keyed = repeat === "keyed" ? withCallId(request, `${this.#prefix}${++this.#keyed}`) : undefined;
    this.#listens.note(request);
    this.remembered.called(request);
    this.#calls.add(request, keyed ? lineOf(keyed) : line, repeat);
    this.refuseQueue();
  }

  #onNotification({ method, params }: Notification, line: Uint8Array): void {
    if (method === "notifications/cancelled") {
      const { requestId: id } = params;
      if (!isId(id)) return;
      this.#reconnects = this.#reconnects.filter((each) => each !== id);
      const isGone = this.#listens.close(id) || this.#calls.cancel(id) === "forward";
      if (isGone && this.#child) this.#ends.toChild(line);
      return;
    }
    if (method === "notifications/initialized") this.#isInitialized = true;
    if (this.#child && this.#child.stage !== "hello") this.#ends.toChild(line);
  }

  #onChildNotification({ method, params }: Notification, line: Uint8Array): void {
    if (method === "notifications/cancelled") {
      const { requestId } = params;
      const id = isId(requestId) ? this.#requests.withdrawn(requestId) : undefined;
      if (id !== undefined) this.#ends.toHost(lineOf({ method, params: { ...params, requestId: id } }));
      return;
    }
    const acknowledged = method === "notifications/subscriptions/acknowledged" && this.#listens.acknowledged(params);
    if (!acknowledged || acknowledged.isNews) this.#ends.toHost(line);
    if (acknowledged && acknowledged.owed !== undefined) this.#ends.toHost(listChangedLine(acknowledged.owed));
  }

  #onChildResponse(response: Response, line: Uint8Array): void {
    const { id, result } = response;
    const question = this.#child?.answered(id);
    if (question) return this.#onOwnAnswer(question, result);
    if (this.#listens.has(id)) {
      // A process that ends in good order closes its listens; the next one opens them again.
      if (result) return;
      this.#listens.close(id);
      return this.#ends.toHost(line);
    }
    const call = this.#calls.settle(id);
    if (!call) return this.#ends.log("answer_to_nobody");
    const taken = call.repeat === "taking" && result ? takenBy(result) : [];
    if (call.isCancelled) {
      if (taken.length > 0) this.#news.add(cancelledNotice(taken.length));
    } else this.#ends.toHost(call.tool === undefined ? line : this.#news.into(response, line));
    this.remembered.took(taken);
    if (call.repeat === "taking") this.#flush();
  }

  #greet(): void {
    if (this.#child) this.#ask(this.#child.hello(this.#era));
  }

  #ask({ id, method, params }: Request): void {
    this.#ends.toChild(lineOf({ id, method, params }));
  }

  #onOwnAnswer(question: Question, result: Params | undefined): void {
    const child = this.#child!;
    if (result) this.#news.version = versionOf(result) ?? this.#news.version;
    const { at } = this.#era;
    if (question === "hello") {
      if (!result) this.#ends.log("greeting_refused");
      else if (at !== "bare") this.#learn(at === "legacy" ? "initialize" : "discover", result);
      this.#resume(child);
    } else if (question !== "nothing" && result) this.#learn(question, result);
    if (child.stage === "list" && question === "tools") this.#greeted(child);
  }

  /** The process has greeted back: it is told what the one before knew. */
  #resume(child: Greeting): void {
    if (this.#era.at === "legacy" && this.#isInitialized) {
      this.#ends.toChild(lineOf({ method: "notifications/initialized" }));
      for (const { method, params } of this.#listens.again()) this.#ask(child.ask("nothing", method, params));
    }
    child.stage = "list";
    if (!this.#catalogue.isTold) return this.#greeted(child);
    const { method, params } = listOf(this.#era);
    this.#ask(child.ask("tools", method, params));
  }

  #greeted(child: Greeting): void {
    child.stage = "done";
    this.#news.greeted();
    this.#ends.ready();
    const result = reconnectResult(child.generation, this.#news.version);
    for (const id of this.#reconnects.splice(0)) this.#result(id, result);
    this.#flush();
  }

  #learn(what: "initialize" | "discover" | "tools", result: Params): void {
    const { isNew, isListChanged } = this.#catalogue.learn(what, result);
    if (isNew) this.#ends.learned(this.#catalogue.answers);
    if (!isListChanged) return;
    if (this.#era.at !== "modern") return this.#ends.toHost(listChangedLine());
    for (const id of this.#listens.toolsChanged()) this.#ends.toHost(listChangedLine(id));
  }

  #flush(): void {
    if (this.#child?.stage !== "done") return;
    for (const line of this.#listens.unsent()) this.#ends.toChild(line);
    for (const call of this.#calls.sendable()) {
      const { tool } = call;
      if (tool === undefined || !this.#catalogue.isGone(tool)) this.#ends.toChild(call.line);
      else this.#refuse(this.#calls.settle(call.id)!, toolGone(tool, this.#news.version));
    }
  }

  #refuse({ id, tool }: Call, failure: LifecycleFailure): void {
    if (tool !== undefined) return this.#result(id, refusalResult(failure));
    this.#ends.toHost(faultLine(id, { code: CODES.internal, message: failure.message }));
  }

  #result(id: Id, result: Params): void {
    const isModern = this.#era.at === "modern" && result["resultType"] === undefined;
    this.#ends.toHost(resultLine(id, isModern ? { ...result, resultType: "complete" } : result));
  }
}
