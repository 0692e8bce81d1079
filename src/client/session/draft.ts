/** What an agent wants to say, and how it becomes the signed message that is sent at every try. */

import { formatRoute, type Key, type Route, type SessionId } from "../../protocol/address.ts";
import { messageBytes, type MessageFields } from "../../protocol/canonical.ts";
import { DEFAULT_LIMITS } from "../../protocol/constants.ts";
import { parseMessage, type Message } from "../../protocol/message.ts";
import { isRefusal, refuse, type Refusal } from "../../protocol/refusal.ts";
import { byteLength } from "../../protocol/text.ts";
import { toDelivery } from "../bus/outgoing.ts";

/** What to say, and to whom. */
export interface Draft {
  readonly to: Route;
  readonly text: string;
  /** @defaultValue message */
  readonly kind?: Message["kind"];
  readonly task_id?: string;
  readonly status?: NonNullable<Message["status"]>;
  readonly in_reply_to?: string;
  /** Given where the caller may call again for the same message; else minted. */
  readonly msg_id?: string;
  /** Given where another session may say the same: the signed bytes are then the same too. Default: the time. */
  readonly ts?: number;
}

/** Whose words they are. */
export interface Author {
  readonly key: Key;
  /** Our own session, where answers should go; absent where it is none that writes: then to any of the identity's. */
  readonly session?: SessionId;
  /** Signs canonical bytes with our key; 86 characters of base64url. */
  readonly sign: (bytes: Uint8Array<ArrayBuffer>) => Promise<string>;
}

/**
 * Signs a draft, and checks it as the bus will: what would be refused there for good is refused here.
 * @param ts the message's own time, by the buses' clock as far as it is known
 */
export async function signDraft(
  { to, text, kind = "message", task_id, status, in_reply_to }: Draft,
  { key, session, sign }: Author,
  msg_id: string,
  ts: number,
): Promise<Message | Refusal> {
  const fields: MessageFields = {
    from: key,
    to: to.key,
    ts,
    kind,
    msg_id,
    text,
    ...(status === undefined ? {} : { status }),
    ...(task_id === undefined ? {} : { task_id }),
    ...(in_reply_to === undefined ? {} : { in_reply_to }),
  };
  const sig = await sign(messageBytes(fields));
  const reply_to = formatRoute({ key, ...(session !== undefined && { session }) });
  const message = parseMessage({ ...fields, reply_to, sig }, DEFAULT_LIMITS);
  if (isRefusal(message)) return message;
  // A text that is mostly line breaks or quotes doubles in JSON, and may then be more than a request takes.
  const size = byteLength(JSON.stringify(toDelivery({ to, payload: message })));
  return size > DEFAULT_LIMITS.BODY_MAX_BYTES ? refuse("too_large") : message;
}

/** True if a message has a draft's words, whatever its time and signature. */
export function hasWordsOf(message: Message, draft: Draft): boolean {
  return (
    message.to === draft.to.key &&
    message.kind === (draft.kind ?? "message") &&
    message.text === draft.text &&
    message.task_id === draft.task_id &&
    message.status === draft.status &&
    message.in_reply_to === draft.in_reply_to
  );
}
