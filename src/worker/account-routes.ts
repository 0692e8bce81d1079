/** What a key says of itself to the bus: whom it admits, that it come in, and that it be forgotten. */

import { decodeBase64url, encodeBase64url } from "../protocol/base64url.ts";
import { sha256 } from "../protocol/canonical.ts";
import { CONTACTS_MAX, INVITE_MAX_MS } from "../protocol/constants.ts";
import { isRefusal, refuse, type Refusal } from "../protocol/refusal.ts";
import { keyField, list, parse, record, text, tsField, whole } from "../protocol/schema.ts";
import { shardOf, shardOfBytes } from "../durable/directory-shards.ts";
import { forgetAdmission } from "./admission.ts";
import { askDirectory, askIdentity } from "./ask.ts";
import { route } from "./pipeline.ts";
import { nonceOf, type Call } from "./route.ts";

const TOKEN_BYTES = 32;

const contactsSchema = record({ contacts: list(keyField, CONTACTS_MAX, 0), ts: tsField });

const contacts = route({
  method: "PUT",
  path: "/contacts",
  check({ body, settings, nowMs }) {
    const parsed = parse(contactsSchema, body);
    if (isRefusal(parsed)) return parsed;
    if (parsed.ts > nowMs + settings.limits.CLOCK_SKEW_MS) return refuse("ts_out_of_range", { now_ms: nowMs });
    return { contacts: [...new Set(parsed.contacts)], ts: parsed.ts };
  },
  async act(call, { env, caller }) {
    const answer = await askIdentity(env, caller!.key, "contacts", call);
    return isRefusal(answer) ? answer : { status: 200, body: answer };
  },
});

const forget = route({
  method: "POST",
  path: "/forget",
  check: ({ body }) => parse(record({}), body),
  async act(_, { env, caller }) {
    const answer = await askIdentity(env, caller!.key, "forget", { nonce: nonceOf(caller!) });
    if (isRefusal(answer)) return answer;
    forgetAdmission(caller!.key);
    return { status: 200, body: answer };
  },
});

const inviteSchema = record({ ttl_ms: whole("bad_field", 1, INVITE_MAX_MS) });

const invite = route({
  method: "POST",
  path: "/invite",
  check({ body, caller, settings }) {
    const parsed = parse(inviteSchema, body);
    return isRefusal(parsed) || settings.adminKeys.has(caller!.key) ? parsed : refuse("not_owner");
  },
  async act({ ttl_ms }, call) {
    const replay = await useNonce(call);
    if (replay) return replay;
    const token = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES));
    const expires_at_ms = call.nowMs + ttl_ms;
    const answer = await askInvites(call, token, "putInvite", (hash) => ({ hash, expiresAtMs: expires_at_ms }));
    if (isRefusal(answer)) return answer;
    return { status: 200, body: { token: encodeBase64url(token), expires_at_ms } };
  },
});

const joinSchema = record({
  token: text("bad_join_token", (value) => decodeBase64url(value, TOKEN_BYTES) !== undefined),
});

const join = route({
  method: "POST",
  path: "/join",
  isForAll: true,
  check: ({ body }) => parse(joinSchema, body),
  async act({ token }, call) {
    const { env, settings, caller } = call;
    const key = caller!.key;
    const bytes = decodeBase64url(token, TOKEN_BYTES)!;
    // The invite first: a stranger without one writes nothing. It is removed last, so that a crash in between
    // leaves it to the key that took it.
    const taken = await askInvites(call, bytes, "takeInvite", (hash) => ({ hash, key }));
    if (isRefusal(taken)) return taken;
    const replay = await useNonce(call);
    if (replay) return replay;
    const admitted = await askDirectory(env, shardOf(key, settings.directoryShards), "admit", { key });
    if (isRefusal(admitted)) return admitted;
    const removed = await askInvites(call, bytes, "removeInvite", (hash) => ({ hash }));
    return isRefusal(removed) ? removed : { status: 200, body: { admitted: true } };
  },
});

/** Asks the shard that an invite's hash belongs to. */
async function askInvites<Operation extends "putInvite" | "takeInvite" | "removeInvite">(
  { env, settings }: Call,
  token: Uint8Array<ArrayBuffer>,
  operation: Operation,
  callFor: (hash: string) => Parameters<typeof askDirectory<Operation>>[3],
) {
  const hash = await sha256(token);
  const shard = shardOfBytes(hash, settings.directoryShards);
  return askDirectory(env, shard, operation, callFor(encodeBase64url(hash)));
}

/** Uses up the caller's token at its key's shard: a key that is not admitted has no object of its own to keep it. */
async function useNonce({ env, settings, caller }: Call): Promise<Refusal | undefined> {
  const shard = shardOf(caller!.key, settings.directoryShards);
  const answer = await askDirectory(env, shard, "useNonce", { nonce: nonceOf(caller!) });
  return isRefusal(answer) ? answer : undefined;
}

export const accountRoutes = [contacts, forget, invite, join];
