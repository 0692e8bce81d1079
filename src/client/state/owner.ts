/**
 * Whose a session's file is, as it says itself: its name has but a digest, which tells nothing to whoever does not know
 * all that it was made of. So a person's command finds the files of every bus, and takes nobody else's for ours.
 */

import { parseKey, parseSessionId, type Key, type SessionId } from "../../protocol/address.ts";
import type { MetaTable } from "./meta.ts";

export interface Owner {
  readonly key: Key;
  readonly session: SessionId;
  /** Of a further bus of the session: its origins. */
  readonly bus?: string;
}

const OWNER = "owner";

export function keepOwner(meta: MetaTable, { key, session, bus }: Owner): void {
  meta.set(OWNER, JSON.stringify({ key, session, ...(bus !== undefined && { bus }) }));
}

/** Undefined where nothing is said, or nothing that could be so. */
export function ownerIn(meta: Pick<MetaTable, "get">): Owner | undefined {
  const { key, session, bus } = fieldsOf(meta.get(OWNER));
  const who = { key: parseKey(String(key)), session: parseSessionId(String(session)) };
  if (!who.key || !who.session || !(bus === undefined || typeof bus === "string")) return undefined;
  return { key: who.key, session: who.session, ...(bus !== undefined && { bus }) };
}

function fieldsOf(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
