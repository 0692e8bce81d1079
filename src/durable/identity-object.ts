/**
 * One object per identity, so that presence, admission, dedupe and replay checks are local and atomic.
 * Entry points only: each counts itself, asks the rate limit, and hands the call to the identity.
 *
 * The door has verified every signature and the caller's right to ask. Invariant 8: with no rows left it
 * deletes itself, and an idle session causes no work: `ping` is answered by the runtime, not here.
 */

import { DurableObject } from "cloudflare:workers";
import { refuse, type Refusal } from "../protocol/refusal.ts";
import type { Answer, Call, IdentityCalls, Methods, PollCall, SocketCall } from "./calls.ts";
import { clock } from "./clock.ts";
import type { Env } from "./env.ts";
import { Identity } from "./identity.ts";
import { logFault } from "./log.ts";
import { meter } from "./meter.ts";
import { settingsOf } from "./settings.ts";
import { handleFrame } from "./socket-desk.ts";
import { TokenBuckets } from "./token-bucket.ts";

export class IdentityObject extends DurableObject<Env> implements Methods<IdentityCalls> {
  readonly #settings = settingsOf(this.env);
  readonly #buckets = new TokenBuckets(this.#settings.limits.RATE_PER_S);
  readonly #identity = new Identity(this.ctx, this.env, this.#settings);

  announce(json: string): Promise<string> {
    return this.#answer<"announce">(
      json,
      ({ key }) => key,
      (call) => this.#identity.announce(call),
    );
  }

  unregister(json: string): Promise<string> {
    return this.#answer<"unregister">(
      json,
      ({ key }) => key,
      (call) => this.#identity.unregister(call),
    );
  }

  view(json: string): Promise<string> {
    return this.#answer<"view">(
      json,
      ({ viewer }) => viewer ?? "",
      (call) => this.#identity.view(call),
    );
  }

  enqueue(json: string): Promise<string> {
    return this.#answer<"enqueue">(
      json,
      ({ entries }) => entries[0]?.sender ?? "", // one call's entries have one sender
      (call) => this.#identity.enqueue(call),
      ({ entries }) => entries.length,
    );
  }

  ack(json: string): Promise<string> {
    return this.#answer<"ack">(
      json,
      ({ key }) => key,
      (call) => this.#identity.ack(call),
    );
  }

  contacts(json: string): Promise<string> {
    return this.#answer<"contacts">(
      json,
      ({ key }) => key,
      (call) => this.#identity.contacts(call),
    );
  }

  receipts(json: string): Promise<string> {
    return this.#answer<"receipts">(
      json,
      ({ sender }) => sender,
      (call) => this.#identity.receipts(call),
    );
  }

  forget(json: string): Promise<string> {
    return this.#answer<"forget">(
      json,
      ({ key }) => key,
      (call) => this.#identity.forget(call),
    );
  }

  census(json: string): Promise<string> {
    return this.#answer<"census">(
      json,
      () => "",
      () => this.#identity.census(),
    );
  }

  /** What may be answered by a socket comes as a request: a poll, or a session's own socket. */
  override async fetch(request: Request): Promise<Response> {
    meter.objectRun();
    const { pathname, searchParams } = new URL(request.url);
    const call = JSON.parse(searchParams.get("call")!) as PollCall | SocketCall;
    const answer =
      this.#limit(call.key, 1) ??
      (pathname === "/socket"
        ? await this.#identity.connect(call as SocketCall)
        : await this.#identity.poll(call as PollCall, request.headers.get("upgrade") === "websocket"));
    return answer instanceof Response ? answer : Response.json(answer, { status: 409 });
  }

  override async webSocketMessage(webSocket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    meter.objectRun();
    const socket = this.#identity.sockets.recognise(webSocket);
    if (!socket) return; // the door says nothing on a parked poll
    try {
      const limited = this.#limit(socket.facts.key, 1);
      if (limited) socket.refuse(limited);
      else await handleFrame(socket, data, this.#settings, this.#identity, clock.now());
    } catch (fault) {
      logFault("frame_fault", fault);
      socket.fail();
    }
  }

  override async webSocketClose(webSocket: WebSocket, code: number, _reason: string, wasClean: boolean): Promise<void> {
    // The other end waits for an answer, and may have closed with a code that nobody may send: some stand for
    // "no code came", others are no one's.
    webSocket.close(code >= 3000 && code <= 4999 ? code : 1000);
    await this.#ended(webSocket, wasClean);
  }

  override async webSocketError(webSocket: WebSocket): Promise<void> {
    await this.#ended(webSocket, false);
  }

  override async alarm(): Promise<void> {
    meter.objectRun();
    try {
      await this.#identity.expire();
    } catch (fault) {
      logFault("alarm_fault", fault); // thrown, it would count towards the platform giving the alarm up
    }
  }

  async #ended(webSocket: WebSocket, wasClean: boolean): Promise<void> {
    meter.objectRun();
    const socket = this.#identity.sockets.recognise(webSocket);
    if (socket) await this.#identity.disconnected(socket, wasClean);
  }

  /** One call: counted, limited by who makes it, answered as text. */
  async #answer<Operation extends keyof IdentityCalls>(
    json: string,
    callerOf: (call: Call<Operation>) => string,
    run: (call: Call<Operation>) => Answer<Operation> | Promise<Answer<Operation>>,
    costOf: (call: Call<Operation>) => number = () => 1,
  ): Promise<string> {
    meter.objectRun();
    const call = JSON.parse(json) as Call<Operation>;
    return JSON.stringify(this.#limit(callerOf(call), costOf(call)) ?? (await run(call)));
  }

  #limit(caller: string, cost: number): Refusal | undefined {
    const waitS = this.#buckets.take(caller, cost, clock.now());
    return waitS > 0 ? refuse("rate_limited", { retry_after_s: waitS }) : undefined;
  }
}
