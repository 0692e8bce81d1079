/** `interlink-edge send`: a person's own word to a peer. Written by the identity and no session of it: the answer goes to whoever is there. */

import { randomBytes } from "node:crypto";
import { isRefusal } from "../../protocol/refusal.ts";
import { isOk } from "../bus/outcome.ts";
import { isToolRefusal } from "../session/agent.ts";
import { signDraft } from "../session/draft.ts";
import { ofMessage } from "../session/tool-refusal.ts";
import { nameOf, tierSentence } from "../tools/render.ts";
import { refuseOutcome } from "./asker.ts";
import type { CommandRun } from "./command-line.ts";
import { askerOf, type Desk } from "./desk.ts";
import { refuse, report, type ExitCode } from "./terminal.ts";
import { wordsOfTool } from "./tool-words.ts";

export async function send(desk: Desk, { peer: typed, text, session }: CommandRun<"send">): Promise<ExitCode> {
  const { terminal, machine, identity, me } = desk;
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const { http, clock, addressing, url } = asker;
  const peer = addressing.find(typed);
  if (isToolRefusal(peer)) return refuse(terminal, wordsOfTool(peer), peer.code);
  const said = text ?? (await machine.stdin()).replace(/\r?\n$/, "");
  const routed = await addressing.route(peer.key, { asked: session });
  if (isToolRefusal(routed))
    return refuse(terminal, wordsOfTool(routed), routed.code, routed.code === "not_connected" ? 4 : 1);
  // Our identity's own inbox is read by whoever writes to it, so what it holds of ours is nobody's mail.
  if (peer.key === me && routed.to.session === undefined)
    return refuse(terminal, wordsOfTool({ code: "oneself" }), "oneself");
  const msg_id = randomBytes(16).toString("hex");
  const author = { key: me, sign: async (bytes: Uint8Array) => identity.sign(bytes) };
  for (let tries = 1; ; tries++) {
    const payload = await signDraft({ to: routed.to, text: said }, author, msg_id, clock.now());
    if (isRefusal(payload)) {
      const refusal = ofMessage(payload, said);
      return refuse(terminal, wordsOfTool(refusal), refusal.code);
    }
    const askedAtMs = Date.now();
    const stored = await http.send({ to: routed.to, payload });
    if (isOk(stored)) {
      const { taken } = routed;
      report(terminal, { msg_id, state: "stored", to: peer.petname, key: peer.key, route: taken }, [
        `Message ${msg_id} for ${nameOf(peer)}: stored. ${tierSentence(taken)}`,
      ]);
      return 0;
    }
    // Our clock is ahead of the bus's, so it is dated by that.
    const busNowMs = "refused" in stored && stored.refused === "ts_out_of_range" ? stored.now_ms : undefined;
    if (busNowMs === undefined || tries > 1 || !clock.learn(busNowMs, askedAtMs))
      return refuseOutcome(terminal, stored, url);
  }
}
