/**
 * What the tools ask of a running session: the seam between what a model may call and how it is done.
 *
 * Every expected "no" is a value with a stable code and the next step; a throw is a fault. Peer text in an
 * answer is data; the sender shown is the one that was verified.
 */

import type { Key, SessionId } from "../../protocol/address.ts";
import type { Message } from "../../protocol/message.ts";
import type { Presence } from "../../protocol/presence.ts";
import type { PeerSession } from "../../protocol/routing.ts";
import type { Operator } from "../trust/operator.ts";
import type { WakePathName } from "../wake/chooser.ts";
import type { Life } from "./outbox-policy.ts";
import type { WakePath } from "./wake-path.ts";
import type { Readiness } from "./readiness.ts";

/** Why a call did nothing. `code` is stable; `facts` carry what the sentence needs, never peer text. */
export interface ToolRefusal {
  readonly code:
    | "unknown_peer"
    | "ambiguous"
    | "unknown_session"
    | "several_live"
    | "several_away"
    | "oneself"
    | "unknown_message"
    | "unknown_task"
    | "unknown_request"
    | "needs_operator"
    | "petname_taken"
    | "bad_name"
    | "bad_key"
    | "bad_text"
    | "bad_field"
    | "not_connected"
    | "superseded"
    | "not_admitted"
    | "client_too_old"
    | "unknown_bus"
    /** The user has not named it. */
    | "unlisted_bus"
    | "bad_bus_url"
    | "bus_refused"
    /** The budget of automatic replies is used up: `budget` says whose, and until when. */
    | "budget_spent"
    | "files_locked"
    | "bad_file";
  /** Candidates of an ambiguous or near name or id. */
  readonly candidates?: readonly string[];
  /** Sessions to choose from, where one must be named. */
  readonly sessions?: readonly PeerSession[];
  /** The bus's own code, or the path of a file. */
  readonly detail?: string;
  /** Our own name of the bus that must be connected first, where that mends it. */
  readonly connect?: string;
  readonly budget?: {
    readonly peer: PeerRef;
    /** Whose budget is used up: that of this peer, or that of all together. */
    readonly over: "peer" | "all";
    /** When one more is allowed; absent: not before the human lifts it. */
    readonly refills_at_ms?: number;
  };
}

/** A peer as the human named it. */
export interface PeerRef {
  readonly petname: string;
  readonly key: Key;
  readonly fingerprint: string;
}

/** Where a message went, in facts; render.ts makes the sentence. */
export type RouteTaken =
  | {
      readonly to: "session";
      readonly session: SessionId;
      readonly presence: Exclude<Presence, "gone">;
      readonly age_ms: number;
      readonly live_sibling?: SessionId;
    }
  | { readonly to: "remembered"; readonly session: SessionId }
  | { readonly to: "identity" }
  /** The roster could not be read: the message waits for the remembered session, or the identity's own inbox. */
  | { readonly to: "unseen"; readonly session?: SessionId };

export interface SendRequest {
  /** Petname, fingerprint, key, or `self` for another session of ours. */
  readonly to: string;
  readonly text: string;
  /** Session id or unique prefix; absent: where the talk was. */
  readonly session?: string;
  readonly task_id?: string;
  readonly status?: NonNullable<Message["status"]>;
  readonly in_reply_to?: string;
  /** From the host's own call id, so that a repeated call is the same message. */
  readonly idempotencyKey?: string;
}

export interface Sent {
  readonly peer: PeerRef;
  readonly msg_id: string;
  readonly life: Life;
  readonly route: RouteTaken;
  /** Whole, also where a beginning was given. */
  readonly task_id?: string;
  /** As `task_id`. */
  readonly in_reply_to?: string;
}

/** One received message as it is shown; `body` may be a beginning, the rest by `readMessage`. */
export interface Shown {
  /** Our own name of the bus that it came by, where there are several. */
  readonly bus?: string;
  readonly from: PeerRef;
  readonly session?: SessionId;
  readonly msg_id: string;
  readonly task_id?: string;
  readonly status?: NonNullable<Message["status"]>;
  readonly in_reply_to?: string;
  readonly sent_at_ms: number;
  readonly received_at_ms: number;
  readonly clock_ok: boolean;
  readonly body: string;
  readonly truncated: boolean;
}

export interface DiscoveredSession {
  readonly session: SessionId;
  readonly name: string;
  readonly cwd?: string;
  readonly git_root?: string;
  readonly summary?: string;
  readonly presence: Exclude<Presence, "gone">;
  readonly age_ms: number;
  readonly connected: boolean;
  readonly is_us: boolean;
  /** How it was last woken, as it told its contacts; absent: nothing is known. A path that we have no word for is `other`. */
  readonly wake?: { readonly path: WakePathName | "other"; readonly proven_age_ms: number };
}

export interface Discovered {
  /** `peer` absent: a stranger that shows itself to all; its name is its own claim. */
  readonly identities: readonly {
    key: Key;
    fingerprint: string;
    peer?: PeerRef;
    sessions: readonly DiscoveredSession[];
  }[];
  /** There are strangers, or may be, that were not read. Ourselves and our peers are always here. */
  readonly partial?: true;
  /** How old the view is: 0 when just read. */
  readonly view_age_ms: number;
  /** Absent: it was read now. */
  readonly stale_because?: string;
}

export interface PairRequestShown {
  readonly request_id: string;
  /** `knock`: a stranger asks. `answer`: they say yes to a knock of our own agent. */
  readonly what: "knock" | "answer";
  readonly key: Key;
  readonly fingerprint: string;
  /** What the stranger calls itself: for the human alone, never in a text for the model. */
  readonly claimed_name: string;
  readonly at_ms: number;
  /** They came by an invite of ours, made then. */
  readonly invited_at_ms?: number;
}

export interface WhoAmI {
  readonly name: string;
  readonly key: Key;
  readonly fingerprint: string;
  readonly session: SessionId;
  readonly bus: string;
  readonly connection: "connected" | "connecting" | "disconnected" | "evicted";
  /** Why it is not connected, as a code, and the call or command that mends it. */
  readonly reason?: string;
  /** As the bus sees us; absent when it could not be asked. */
  readonly presence?: { readonly presence: Presence; readonly age_ms?: number };
  /** What can be done now, and why not. */
  readonly readiness: Readiness;
  readonly unread: number;
  readonly pending: number;
}

export interface TaskShown {
  readonly task_id: string;
  readonly peer: PeerRef;
  readonly state: string;
  readonly owed_by: "us" | "peer" | "nobody";
  readonly changed_at_ms: number;
}

export interface Agent {
  whoami(): Promise<WhoAmI>;
  send(request: SendRequest): Promise<Sent | ToolRefusal>;
  cancelTask(request: {
    readonly to: string;
    readonly task_id: string;
    readonly reason?: string;
    /** As of {@link SendRequest}. */
    readonly idempotencyKey?: string;
  }): Promise<Sent | ToolRefusal>;
  messageStatus(msgId: string): Promise<{ msg_id: string; peer: PeerRef; life: Life } | ToolRefusal>;
  history(request: { with: string; max: number; before?: number }): Promise<
    | {
        readonly peer: PeerRef;
        readonly entries: readonly (
          | ({ direction: "in" } & Shown)
          | { direction: "out"; msg_id: string; at_ms: number; body: string; life: Life; task_id?: string }
        )[];
        readonly before?: number;
      }
    | ToolRefusal
  >;
  listPending(): Promise<{
    readonly unsent: readonly { msg_id: string; peer: PeerRef; life: Life }[];
    readonly tasks: readonly TaskShown[];
  }>;
  discover(peer?: string): Promise<Discovered | ToolRefusal>;
  setSummary(summary: string): Promise<{ readonly summary: string } | ToolRefusal>;
  requestPair(request: {
    key: string;
    petname: string;
  }): Promise<
    { readonly key: Key; readonly fingerprint: string; readonly msg_id: string; readonly life: Life } | ToolRefusal
  >;
  pairRequests(): Promise<readonly PairRequestShown[]>;
  /** Which request an operator would decide on, before one is asked. */
  findPairRequest(request: string): Promise<PairRequestShown | ToolRefusal>;
  acceptPair(request: string, petname: string, operator: Operator): Promise<PeerRef | ToolRefusal>;
  rejectPair(request: string, operator: Operator): Promise<{ readonly fingerprint: string } | ToolRefusal>;
  peers(): Promise<readonly PeerRef[]>;
  addPeer(petname: string, key: Key, operator: Operator): Promise<PeerRef | ToolRefusal>;
  removePeer(petname: string, operator: Operator): Promise<PeerRef | ToolRefusal>;
  findPeer(name: string): Promise<PeerRef | ToolRefusal>;
  /** Unread mail, oldest first, marked read by this very call. `left`: how many more wait. */
  checkMessages(request: { max: number; maxBytes: number }): Promise<{ messages: readonly Shown[]; left: number }>;
  /** A part of one message, from a character offset. */
  readMessage(msgId: string, offset: number): Promise<(Shown & { next_offset?: number }) | ToolRefusal>;
  /** One-line facts for the next tool result: unread mail, a bus that is away, a budget that is used up. No peer text. */
  notices(): readonly string[];
  /**
   * How the host is to be told of unread mail: once until somebody looks, again after growing pauses, and within the budget
   * of wakes.
   */
  onMail(path: WakePath): void;
  /** Somebody would hear now who would not before: what waits is told. */
  heard(): void;
  /** What is known of how mail wakes this session is otherwise now: its peers are told, where that is news. */
  wakeChanged(): void;
  /** The human lets an agent go on with a peer: its budgets, and those of all together, are full again. */
  liftBudget(peer: Key, operator: Operator): Promise<PeerRef>;
  /**
   * A human was seen at this session: what is written next is theirs. For hooks that a host runs when its user has
   * typed something; never for a prompt that a wake has put there.
   */
  humanSeen(): void;
  /** The session is real from now on: announce it. */
  begin(): void;
  /** Goodbye and unregister, in one frame where a socket is open; at most this long. */
  close(withinMs: number): Promise<void>;
}

/** Tells a refusal from an answer. */
export function isToolRefusal(value: object): value is ToolRefusal {
  return "code" in value;
}
