/**
 * The platform's floor: the least that a Worker and an object can do and still be a durable mailbox. One INSERT a
 * request, a push, a cumulative ack. No signature, no policy, no limit, no dedupe: what the bus adds shows against it.
 */

/// <reference types="@cloudflare/workers-types" />

import { DurableObject } from "cloudflare:workers";

interface Env {
  readonly MAILBOXES: DurableObjectNamespace<Mailbox>;
}

/** As PROTOCOL.md: unacked messages on a socket. */
const WINDOW = 64;

class Mailbox extends DurableObject<Env> {
  #sql: SqlStorage;
  #nextSeq: number;
  /** Pushed on the open socket and not acked. Lost in hibernation; then all that is queued is pushed again. */
  #unacked: number[] = [];
  #pushedThrough = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec("CREATE TABLE IF NOT EXISTS queue (seq INTEGER PRIMARY KEY, text TEXT NOT NULL)");
    const last = this.#sql.exec<{ seq: number | null }>("SELECT max(seq) AS seq FROM queue").one().seq ?? 0;
    // Numbers must rise over wakes with an empty table too; the clock in microseconds outruns any count.
    this.#nextSeq = Math.max(last + 1, Date.now() * 1_000);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  /** One durable INSERT; the answer leaves after its commit. */
  put(text: string): number {
    const seq = this.#nextSeq++;
    this.#sql.exec("INSERT INTO queue (seq, text) VALUES (?, ?)", seq, text);
    this.#push();
    return seq;
  }

  override async fetch(): Promise<Response> {
    for (const older of this.ctx.getWebSockets()) older.close(4409, "superseded");
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    this.#unacked = [];
    this.#pushedThrough = 0;
    const { queued } = this.#sql.exec<{ queued: number }>("SELECT count(*) AS queued FROM queue").one();
    server.send(JSON.stringify({ t: "welcome", queued }));
    this.#push();
    return new Response(null, { status: 101, webSocket: client });
  }

  override webSocketMessage(_socket: WebSocket, frame: string | ArrayBuffer): void {
    const { through } = JSON.parse(frame as string) as { t: "ack"; through: number };
    this.#sql.exec("DELETE FROM queue WHERE seq <= ?", through);
    this.#unacked = this.#unacked.filter((seq) => seq > through);
    this.#push();
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    socket.close(code === 1005 || code === 1006 ? 1000 : code);
  }

  override webSocketError(): void {}

  #push(): void {
    const socket = this.ctx.getWebSockets().findLast((one) => one.readyState === WebSocket.OPEN);
    const room = WINDOW - this.#unacked.length;
    if (!socket || room <= 0) return;
    const items = this.#sql
      .exec<{ seq: number; text: string }>(
        "SELECT seq, text FROM queue WHERE seq > ? ORDER BY seq LIMIT ?",
        this.#pushedThrough,
        room,
      )
      .toArray();
    const last = items.at(-1);
    if (!last) return;
    this.#pushedThrough = last.seq;
    for (const { seq } of items) this.#unacked.push(seq);
    socket.send(JSON.stringify({ t: "messages", items }));
  }
}

const worker = {
  async fetch(request, env): Promise<Response> {
    const url = new URL(request.url);
    const mailbox = env.MAILBOXES.getByName(url.searchParams.get("to")!);
    if (request.headers.get("upgrade") === "websocket") return mailbox.fetch(request);
    return new Response(String(await mailbox.put(await request.text())));
  },
} satisfies ExportedHandler<Env>;

// One list at the end, as bundles have it: server/count-objects.ts rewrites it.
export { Mailbox, worker as default };
