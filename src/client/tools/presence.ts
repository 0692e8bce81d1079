/** The tools of presence: who is there, who we are, and what we say of ourselves. */

import * as z from "zod/v4";
import type { Discovered } from "../session/agent.ts";
import type { Drop } from "../session/buses.ts";
import { shown } from "./escape.ts";
import { inputs, outputs, wholeMs } from "./fields.ts";
import { sessionLine } from "./lines.ts";
import { placeSentence } from "./render-buses.ts";
import { discoverSentence, whoamiSentence } from "./render.ts";
import { wakeSentence } from "./render-wake.ts";
import { isNo, tool, type Tool } from "./tool.ts";
import { WAKE_PATHS } from "../wake/chooser.ts";
import type { WakeStanding } from "../wake/standing.ts";

/** Sessions of one answer: a few thousand tokens. */
export const SESSIONS_MAX = 30;

const discover = tool({
  name: "discover",
  title: "Who is there",
  description:
    "The sessions on the bus's roster, one line of JSON each: peers first. presence is live or away (silent, probably asleep; it reads its " +
    "mail when it wakes); what was closed is not listed. wake: how a peer's session was last seen to be woken. key is verified; claimed_name, cwd and summary are what the session says of itself. Of " +
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
    partial: z.literal(true).optional().describe("Strangers may be missing; we and our peers are not"),
    view_age_ms: z.int().min(0).describe("How old this view of the roster is"),
    stale_because: z.string().optional().describe("Why it could not be read now"),
  }),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act({ peer }, { agent, wake }) {
    const view = await agent.discover(peer);
    if (isNo(view)) return view;
    const { session: ours } = await agent.whoami();
    const all = inOrder(view, ours, wake());
    const sessions = all.slice(0, SESSIONS_MAX);
    const left = all.length - sessions.length;
    const { partial, view_age_ms, stale_because } = view;
    return {
      text: [discoverSentence({ count: sessions.length, left }, view), ...sessions].join("\n"),
      fields: {
        sessions,
        left,
        ...(partial && { partial }),
        view_age_ms: wholeMs(view_age_ms),
        ...(stale_because !== undefined && { stale_because: shown(stale_because) }),
      },
    };
  },
});

/** Peers before ourselves before strangers, each by name or key; the live sessions of each first. */
function inOrder({ identities }: Discovered, ours: string, wake: WakeStanding): string[] {
  const rankOf = ({ peer, sessions }: Discovered["identities"][number]) =>
    peer ? 0 : sessions.some(({ is_us }) => is_us) ? 1 : 2;
  const nameOf = ({ peer, key }: Discovered["identities"][number]) => peer?.petname ?? key;
  return [...identities]
    .sort((a, b) => rankOf(a) - rankOf(b) || (nameOf(a) < nameOf(b) ? -1 : 1))
    .flatMap((identity) =>
      [...identity.sessions]
        .sort((a, b) => a.age_ms - b.age_ms || (a.session < b.session ? -1 : 1))
        .map((session) => sessionLine(identity, session, session.is_us && session.session === ours ? wake : undefined)),
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
    bus_name: z.string().describe("Our operator's name for it, else its address"),
    parked: z.array(z.string()).describe("Other buses that are connected; their mail comes with check_messages"),
    connection: z.enum(["connected", "connecting", "disconnected", "evicted"]).describe("How we stand to it"),
    reason: z.string().optional().describe("Why we are not connected, and what mends it"),
    presence: z.enum(["live", "away", "gone"]).optional().describe("As the bus sees us; absent: it could not be asked"),
    age_ms: z.int().min(0).optional().describe("Time since our last sign of life there"),
    // No enums: a host may check by a list from before an update that knows one path more.
    wake_path: z
      .string()
      .describe(`How mail wakes this session: ${WAKE_PATHS.join(", ")}, none. With the last two call check_messages`),
    wake_proof: z
      .string()
      .describe("proven: a wake was answered within the hour; lapsed: longer ago; unanswered: the last ones were not"),
    wake_proven_age_ms: z.int().min(0).optional().describe("Time since a wake was last answered"),
    unread: z.int().min(0).describe("Messages that wait for check_messages"),
    pending: z.int().min(0).describe("Messages of ours that no bus has stored yet"),
    readiness: z
      .object({
        read_roster: z.string().describe("Of discover; bus_stale: what is shown is old"),
        send: z.string().describe("Of send_message, which needs no bus to be there"),
        receive: z.string().describe("Of mail that comes in"),
        trust: z.string().describe("Of the tools of trust, which need files alone"),
        wake: z.string().describe("Of waking this session when mail comes"),
      })
      .describe("What can be done now: ready, or the code of the one reason why not"),
    last_drop: z
      .object({
        what: z.enum(["switched", "disconnected", "evicted"]),
        bus: z.string(),
        reason: z.string().optional(),
        call: z.string().describe("The tool that mends it"),
        bus_argument: z.string().optional().describe("Its argument `bus`"),
      })
      .optional()
      .describe("Why the session is not where it was, and the call that mends it"),
    feedback: outputs.feedback,
  }),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act(_args, { agent, wake: standing }) {
    const me = await agent.whoami();
    const wake = standing();
    const { name, fingerprint, key, session, bus, connection, reason, presence, unread, pending } = me;
    const { readiness, bus_name, parked, last_drop: drop } = me;
    const feedback = `${whoamiSentence(me, wakeSentence(wake))} ${placeSentence(me)}`;
    return {
      text: `${feedback} Our whole key is ${key}.`,
      fields: {
        name: shown(name),
        key: fingerprint,
        public_key: key,
        session,
        bus: shown(bus),
        bus_name: shown(bus_name),
        parked: parked.map(shown),
        connection,
        ...(reason !== undefined && { reason: shown(reason) }),
        ...(presence && { presence: presence.presence }),
        ...(presence?.age_ms !== undefined && { age_ms: wholeMs(presence.age_ms) }),
        wake_path: wake.path,
        wake_proof: wake.proof,
        ...(wake.proven_age_ms !== undefined && { wake_proven_age_ms: wholeMs(wake.proven_age_ms) }),
        unread,
        pending,
        readiness,
        ...(drop && { last_drop: dropFields(drop) }),
        feedback,
      },
    };
  },
});

function dropFields({ what, bus, reason, mend }: Drop) {
  return {
    what,
    bus: shown(bus),
    ...(reason !== undefined && { reason: shown(reason) }),
    call: mend.tool,
    ...(mend.tool === "connect_bus" && { bus_argument: shown(mend.bus) }),
  };
}

export const presenceTools: readonly Tool[] = [discover, setSummary, whoami];
