/** The tools of presence: who is there, who we are, and what we say of ourselves. */

import * as z from "zod/v4";
import type { Discovered } from "../session/agent.ts";
import { shown } from "./escape.ts";
import { inputs, outputs, wholeMs } from "./fields.ts";
import { sessionLine } from "./lines.ts";
import { discoverSentence, whoamiSentence } from "./render.ts";
import { isNo, tool, type Tool } from "./tool.ts";

/** Sessions of one answer: a few thousand tokens. */
export const SESSIONS_MAX = 30;

const discover = tool({
  name: "discover",
  title: "Who is there",
  description:
    "The sessions on the bus's roster, one line of JSON each: peers first. presence is live or away (silent, probably asleep; it reads its " +
    "mail when it wakes); what was closed is not listed. key is verified; claimed_name, cwd and summary are what the session says of itself. Of " +
    "those who are no peers only a claimed name is shown, which proves nothing: compare fingerprints before pairing.",
  input: z.strictObject({
    peer: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe("Only this identity: petname, fingerprint or key, or `self`; absent: everybody"),
  }),
  output: z.object({
    sessions: outputs.lines.describe("One line of JSON for each session"),
    left: z.int().min(0).describe("How many more there are; name a peer to see its own"),
    view_age_ms: z.int().min(0).describe("How old this view of the roster is"),
    stale_because: z.string().optional().describe("Why it could not be read now"),
  }),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act({ peer }, { agent }) {
    const view = await agent.discover(peer);
    if (isNo(view)) return view;
    const all = inOrder(view);
    const sessions = all.slice(0, SESSIONS_MAX);
    const left = all.length - sessions.length;
    const { view_age_ms, stale_because } = view;
    return {
      text: [discoverSentence({ count: sessions.length, left }, view), ...sessions].join("\n"),
      fields: {
        sessions,
        left,
        view_age_ms: wholeMs(view_age_ms),
        ...(stale_because !== undefined && { stale_because: shown(stale_because) }),
      },
    };
  },
});

/** Peers before ourselves before strangers, each by name or key; the live sessions of each first. */
function inOrder({ identities }: Discovered): string[] {
  const rankOf = ({ peer, sessions }: Discovered["identities"][number]) =>
    peer ? 0 : sessions.some(({ is_us }) => is_us) ? 1 : 2;
  const nameOf = ({ peer, key }: Discovered["identities"][number]) => peer?.petname ?? key;
  return [...identities]
    .sort((a, b) => rankOf(a) - rankOf(b) || (nameOf(a) < nameOf(b) ? -1 : 1))
    .flatMap((identity) =>
      [...identity.sessions]
        .sort((a, b) => a.age_ms - b.age_ms || (a.session < b.session ? -1 : 1))
        .map((session) => sessionLine(identity, session)),
    );
}

const setSummary = tool({
  name: "set_summary",
  title: "Say what this session does",
  description:
    "Set the one line by which peers recognize this session in discover. They see it, so put nothing secret there. It replaces the last one.",
  input: z.strictObject({ summary: inputs.summary }),
  output: z.object({ summary: z.string().describe("As it is now, escaped as in JSON") }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act({ summary }, { agent }) {
    const set = await agent.setSummary(summary);
    if (isNo(set)) return set;
    const now = shown(set.summary);
    return {
      text: now === "" ? "The summary is empty now." : `The summary is now "${now}".`,
      fields: { summary: now },
    };
  },
});

const whoami = tool({
  name: "whoami",
  title: "Who we are",
  description:
    "Our own name, fingerprint and session, how we are connected and how the bus sees us, and how much mail is unread. Use it to tell " +
    "somebody our fingerprint, or when mail seems to be stuck.",
  input: inputs.noArguments,
  output: z.object({
    name: z.string().describe("What we call ourselves on the roster"),
    key: z.string().describe("Our fingerprint, for people to compare"),
    public_key: z.string().describe("Our whole key"),
    session: z.string().describe("Id of this session"),
    bus: z.string().describe("Address of the bus"),
    connection: z.enum(["connected", "connecting", "disconnected", "evicted"]).describe("How we stand to it"),
    reason: z.string().optional().describe("Why we are not connected, and what mends it"),
    presence: z.enum(["live", "away", "gone"]).optional().describe("As the bus sees us; absent: it could not be asked"),
    age_ms: z.int().min(0).optional().describe("Time since our last sign of life there"),
    wake_path: z.enum(["none"]).describe("How mail wakes this session: none; call check_messages"),
    unread: z.int().min(0).describe("Messages that wait for check_messages"),
    pending: z.int().min(0).describe("Messages of ours that no bus has stored yet"),
    feedback: outputs.feedback,
  }),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act(_args, { agent }) {
    const me = await agent.whoami();
    const { name, fingerprint, key, session, bus, connection, reason, presence, wake_path, unread, pending } = me;
    const feedback = whoamiSentence(me);
    return {
      text: `${feedback} Our whole key is ${key}.`,
      fields: {
        name: shown(name),
        key: fingerprint,
        public_key: key,
        session,
        bus: shown(bus),
        connection,
        ...(reason !== undefined && { reason: shown(reason) }),
        ...(presence && { presence: presence.presence }),
        ...(presence?.age_ms !== undefined && { age_ms: wholeMs(presence.age_ms) }),
        wake_path,
        unread,
        pending,
        feedback,
      },
    };
  },
});

export const presenceTools: readonly Tool[] = [discover, setSummary, whoami];
