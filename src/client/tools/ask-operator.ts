/**
 * Asking the human, by the host's own form (elicitation), before what is theirs to decide is done. Both eras: a modern client gets the
 * question as the result and calls again with the answer; for an older one the SDK asks it meanwhile.
 *
 * The question's subject is sealed and comes back with the answer: what was shown is what is changed.
 */

import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  inputRequired,
  inputResponse,
  type ClientCapabilities,
  type InputRequiredResult,
} from "@modelcontextprotocol/server";
import * as z from "zod/v4";
import type { Key } from "../../protocol/address.ts";
import { Operator } from "../trust/operator.ts";
import { operatorNeeded, ownRefusal, type Failure } from "./render-refusal.ts";
import type { Call } from "./tool.ts";

export interface Question {
  /** Of whom it is decided. */
  readonly key: Key;
  /** All that the human decides on, as one text; another one next time is another question. */
  readonly subject: readonly string[];
  /** For the human's eyes. */
  readonly message: string;
  /** What a yes says. */
  readonly yes?: string;
  /** The command that does the same where nobody can be asked. */
  readonly command: string;
}

const formOf = (yes: string) => z.object({ approve: z.boolean().describe(yes) });
const TRUST_YES = "Yes: I decided this myself, and compared the fingerprint";

/** The name of our question among a call's. */
const DECISION = "decision";

/** The operator's yes, or the question, or why there is none. */
export async function askOperator(
  call: Call,
  { key, subject, message, yes = TRUST_YES, command }: Question,
): Promise<Operator | Failure | InputRequiredResult> {
  const { context, seal } = call;
  if (!canAsk(call)) return operatorNeeded(command);
  const form = formOf(yes);
  const shown = JSON.stringify([key, ...subject]);
  const answer = inputResponse(context.mcpReq.inputResponses, DECISION);
  if (answer.kind === "missing") {
    const decision = inputRequired.elicit({ message, requestedSchema: form });
    return inputRequired({ inputRequests: { decision }, requestState: await seal.mint({ shown }) });
  }
  const state = context.mcpReq.requestState<{ readonly shown: string }>();
  // Without the seal it is an answer to no question of ours.
  if (typeof state !== "object" || state.shown !== shown) return ownRefusal("changed");
  if (answer.kind !== "elicit" || answer.action === "cancel") return ownRefusal("dismissed");
  const content = acceptedContent(context.mcpReq.inputResponses, DECISION, form);
  return content?.approve === true ? Operator.attest(key, "elicitation") : ownRefusal("declined");
}

/** True if the call brings an answer to a question of ours, whatever it says. */
export function hasAnswer({ context }: Call): boolean {
  return inputResponse(context.mcpReq.inputResponses, DECISION).kind !== "missing";
}

/** True if this client can show a form. `elicitation: {}` is a form, as before there were modes. */
export function canAsk({ server, context }: Call): boolean {
  const envelope = context.mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  // Each modern request says what its client can; an older client said it once.
  const capabilities = (envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? server.server.getClientCapabilities()) as
    | ClientCapabilities
    | undefined;
  const elicitation = capabilities?.elicitation;
  return elicitation !== undefined && ("form" in elicitation || !("url" in elicitation));
}
