/**
 * The handshake of a session's socket. What is wrong with it as HTTP is refused as HTTP; what is wrong with
 * the caller is told by a close with its reason, since clients see nothing of a refused upgrade. Either
 * way no object is touched before the token holds.
 */

import { parseRoute, type Key } from "../protocol/address.ts";
import { CLOSE, errorFrame, SUBPROTOCOL } from "../protocol/frames.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { parseToken, type Token } from "../protocol/token.ts";
import { clock } from "../durable/clock.ts";
import type { Env } from "../durable/env.ts";
import { settingsOf, type Settings } from "../durable/settings.ts";
import { checkAdmission } from "./admission.ts";
import { connectIdentity, refusalIn } from "./ask.ts";
import { authenticate } from "./authenticate.ts";
import { brakeAddress, brakeKey } from "./brake.ts";
import { checkHeaders, parseQuery, targetOf } from "./guard.ts";
import { answer, record, type Seen } from "./observe.ts";
import { nonceOf, ownSession, type Caller } from "./route.ts";

/** A refusal that is told by a close, and its code. */
interface Closing {
  readonly refusal: Refusal;
  readonly code: number;
}

/** Opens a socket, or says why not. */
export async function openSocket(request: Request, env: Env): Promise<Response> {
  const settings = settingsOf(env);
  const seen: Seen = { method: "WS", route: "/socket", startedMs: clock.now() };
  const outcome = await shakeHands(request, env, settings, seen);
  if (isRefusal(outcome)) return answer(outcome, seen, settings, clock.now);
  record("refusal" in outcome ? outcome.refusal.refused : undefined, 101, seen, settings, clock.now);
  return "refusal" in outcome ? closed(outcome) : outcome;
}

async function shakeHands(
  request: Request,
  env: Env,
  settings: Settings,
  seen: Seen,
): Promise<Response | Closing | Refusal> {
  const rejected = checkHeaders(request, settings) ?? (await brakeAddress(request, env, settings));
  if (rejected) return rejected;
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") return refuse("upgrade_required");
  const token = offeredToken(request.headers.get("sec-websocket-protocol"));
  if (isRefusal(token)) return token;

  const target = targetOf(request);
  const nowMs = clock.now();
  const signed = { method: "WS", target, body: new Uint8Array(0) };
  const caller = await authenticate(token, signed, settings, nowMs);
  if (isRefusal(caller)) return { refusal: caller, code: CLOSE.notAuthenticated };
  seen.key = caller.key;
  const braked = await brakeKey(caller.key, env, settings);
  if (braked) return braked;

  const query = parseQuery(target, ["me"], []);
  if (isRefusal(query)) return query;
  const session = sessionOf(query.get("me")?.[0], caller);
  if (isRefusal(session)) {
    return session.refused === "not_owner" ? { refusal: session, code: CLOSE.notYours } : session;
  }
  const notAdmitted = await checkAdmission({ env, settings, caller, nowMs });
  if (notAdmitted) return { refusal: notAdmitted, code: CLOSE.notYours };

  const opened = await connectIdentity(env, { key: caller.key as Key, session, nonce: nonceOf(caller) });
  if (opened.webSocket) return opened;
  const refusal = await refusalIn(opened);
  return refusal.refused === "replay" ? { refusal, code: CLOSE.notAuthenticated } : refusal;
}

/** The one token among the offered subprotocols. */
function offeredToken(header: string | null): Token | Refusal {
  const offered = (header ?? "").split(",").map((protocol) => protocol.trim());
  if (!offered.includes(SUBPROTOCOL)) return refuse("bad_protocol");
  const [token, ...more] = offered.filter((protocol) => protocol !== SUBPROTOCOL);
  if (token === undefined) return refuse("auth_required");
  return more.length === 0 ? parseToken(token) : refuse("bad_auth");
}

function sessionOf(me: string | undefined, caller: Caller) {
  if (me === undefined) return refuse("bad_query");
  const route = parseRoute(me);
  return isRefusal(route) ? route : ownSession(route, caller);
}

/** A socket that only says why there is none: the reason is its code, the facts are in a frame before it. */
function closed({ refusal, code }: Closing): Response {
  const { 0: theirs, 1: ours } = new WebSocketPair();
  ours.accept();
  ours.send(errorFrame(refusal));
  ours.close(code, refusal.refused);
  return new Response(null, { status: 101, webSocket: theirs, headers: { "sec-websocket-protocol": SUBPROTOCOL } });
}
