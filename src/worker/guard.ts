/**
 * The cheap checks, in their order: target → route → method → Host → Origin → content type and encoding
 * → body size. None of them reads a signature, and none touches an object.
 */

import { TARGET_MAX_BYTES } from "../protocol/constants.ts";
import { refuse, type Refusal } from "../protocol/refusal.ts";
import type { Settings } from "../durable/settings.ts";

const TARGET = /^\/[A-Za-z0-9_\-/.%=&?~]*$/;

/** Path and query exactly as the client sent them, which is what its token is signed over. */
export function targetOf(request: Request): string {
  const authority = request.url.indexOf("//") + 2;
  const slash = request.url.indexOf("/", authority);
  return slash < 0 ? "/" : request.url.slice(slash);
}

/** Checks the target's characters and length. */
export function checkTarget(target: string): Refusal | undefined {
  if (target.length > TARGET_MAX_BYTES) return refuse("uri_too_long");
  return TARGET.test(target) ? undefined : refuse("bad_target");
}

/** Host, Origin and content headers. */
export function checkHeaders({ headers, method }: Request, settings: Settings): Refusal | undefined {
  if (settings.hosts && !settings.hosts.has(headers.get("host") ?? "")) return refuse("bad_host");
  if (headers.has("origin")) return refuse("bad_origin"); // no web page is a client of ours
  if (method === "GET") return undefined;
  const [type, ...parameters] = (headers.get("content-type") ?? "").split(";").map((part) => part.trim().toLowerCase());
  const isJson = type === "application/json" && parameters.every((parameter) => parameter === "charset=utf-8");
  return isJson && !headers.has("content-encoding") ? undefined : refuse("unsupported_media_type");
}

/** Reads a body, giving up as soon as it is too large, whatever length was declared. */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer> | Refusal> {
  const declared = request.headers.get("content-length");
  if (declared !== null) {
    // HTTP ends the body where it was declared to end, so it can be taken whole, without the cost of a stream.
    return Number(declared) > maxBytes ? refuse("too_large") : new Uint8Array(await request.arrayBuffer());
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > maxBytes) return refuse("too_large");
    chunks.push(chunk);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

/** Takes the query apart. Unknown or repeated parameters are refused: a secret must not ride in a URL unseen. */
export function parseQuery(
  target: string,
  once: readonly string[],
  many: readonly string[],
): ReadonlyMap<string, readonly string[]> | Refusal {
  const query = new Map<string, string[]>();
  const start = target.indexOf("?");
  if (start < 0) return query;
  for (const [name, value] of new URLSearchParams(target.slice(start + 1))) {
    const values = query.get(name);
    if (values === undefined && (once.includes(name) || many.includes(name))) query.set(name, [value]);
    else if (values !== undefined && many.includes(name)) values.push(value);
    else return refuse("bad_query");
  }
  return query;
}
