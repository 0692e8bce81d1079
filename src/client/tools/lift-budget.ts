/** Asking the human, within the call that found it used up, whether a budget of the loop guard is to be lifted. */

import type { InputRequiredResult } from "@modelcontextprotocol/server";
import type { ToolRefusal } from "../session/agent.ts";
import { Operator } from "../trust/operator.ts";
import { askOperator } from "./ask-operator.ts";
import type { Failure } from "./render-refusal.ts";
import { commandOf, questionFor } from "./render-trust.ts";
import { isNo, type Call } from "./tool.ts";

/** @returns undefined once it is lifted; else the question, or why it is not */
export async function liftBudget(
  call: Call,
  to: string,
): Promise<ToolRefusal | Failure | InputRequiredResult | undefined> {
  const peer = await call.agent.findPeer(to);
  if (isNo(peer)) return peer;
  const operator = await askOperator(call, {
    key: peer.key,
    subject: ["lift_budget", peer.petname],
    message: questionFor.lift(peer),
    yes: "Yes: I have seen what they write to each other, and it may go on",
    command: commandOf.lift(peer.petname),
  });
  if (!(operator instanceof Operator)) return operator;
  await call.agent.liftBudget(peer.key, operator);
  return undefined;
}
