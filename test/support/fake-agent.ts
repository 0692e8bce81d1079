/**
 * An agent without a bus: it answers the tools from a scene that a test wrote, and notes what it was asked.
 *
 * One peer, `alice`, with a live session `s-live` and an away one `s-away`; a stranger who knocks.
 */

import { createPrivateKey, createPublicKey } from "node:crypto";
import { fingerprint, parseKey, parseSessionId, type Key, type SessionId } from "../../src/protocol/address.ts";
import type {
  Discovered,
  PairRequestShown,
  PeerRef,
  RouteTaken,
  SendRequest,
  Sent,
  Shown,
  ToolRefusal,
} from "../../src/client/session/agent.ts";
import type { BusAgent, BusShown, WhoAmIThere } from "../../src/client/session/buses.ts";
import type { WakePath } from "../../src/client/session/wake-path.ts";
import { Operator } from "../../src/client/trust/operator.ts";

export const NOW_MS = Date.UTC(2026, 10, 30, 12);

export function fakeKey(seed: number): Key {
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, seed)]);
  const jwk = createPublicKey(createPrivateKey({ key: der, format: "der", type: "pkcs8" })).export({ format: "jwk" });
  return parseKey(jwk.x!)!;
}

export function sessionId(text: string): SessionId {
  return parseSessionId(text)!;
}

export function fakePeer(petname: string, seed: number): PeerRef {
  const key = fakeKey(seed);
  return { petname, key, fingerprint: fingerprint(key) };
}

export const ME = fakePeer("self", 1);
export const ALICE = fakePeer("alice", 2);
export const STRANGER = fakePeer("stranger", 3);

const BUS: BusShown = {
  name: "work",
  address: "https://bus.example",
  role: "active",
  connection: "connected",
  fingerprint: ME.fingerprint,
  unread: 0,
  pending: 0,
};

/** What a test wants to be so; plain JSON, for a child process. */
export interface Scene {
  readonly mail?: readonly { readonly body: string; readonly task_id?: string; readonly from?: PeerRef }[];
  readonly peers?: readonly PeerRef[];
  /** What the one who knocks calls itself; absent: nobody knocks. */
  readonly claimedName?: string;
  /** Default: a knock. */
  readonly what?: "knock" | "answer";
  /** What each session says of itself, and what each task is called. */
  readonly says?: readonly string[];
  readonly notices?: readonly string[];
  readonly route?: RouteTaken;
  /** No automatic reply is left until the human lifts it. */
  readonly isSpent?: boolean;
  /** The answer to everything that may be refused. */
  readonly refusal?: ToolRefusal;
  /** Throw instead of answering. */
  readonly fault?: string;
}

export class FakeAgent implements BusAgent {
  readonly #scene: Scene;
  readonly #note: (call: string, facts?: object) => void;
  readonly #mail: Shown[];
  #path: WakePath | undefined;
  #isLifted = false;
  #read = 0;
  #operators = 0;

  constructor(scene: Scene, note: (call: string, facts?: object) => void = () => {}) {
    this.#scene = scene;
    this.#note = note;
    this.#mail = (scene.mail ?? []).map(({ body, task_id, from = ALICE }, index) => ({
      from,
      session: sessionId("s-live"),
      msg_id: `m${index}`,
      ...(task_id !== undefined && { task_id, status: "update" as const }),
      sent_at_ms: NOW_MS - 60_000,
      received_at_ms: NOW_MS - 50_000,
      clock_ok: true,
      body,
      truncated: false,
    }));
  }

  /** New mail came. */
  ring(): void {
    const count = this.#mail.length - this.#read;
    if (this.#path?.isHeard()) this.#path.wake({ count, from: [ALICE.petname], oldest_age_ms: 0 });
    this.#note("ring");
  }

  async whoami(): Promise<WhoAmIThere> {
    return {
      name: this.#says[0]!,
      key: ME.key,
      fingerprint: ME.fingerprint,
      session: sessionId("s-own"),
      bus: "https://bus.example",
      connection: "connected",
      presence: { presence: "live", age_ms: 1_500 },
      bus_name: "work",
      parked: ["home"],
      readiness: { read_roster: "ready", send: "ready", receive: "ready", trust: "ready", wake: "no_wake_path" },
      last_drop: { what: "switched", bus: "home", mend: { tool: "connect_bus", bus: "home" } },
      unread: this.#mail.length - this.#read,
      pending: 0,
    };
  }

  async findBus(bus: string) {
    const meant = { name: bus, address: "https://bus.example", isListed: !bus.includes("://"), key: ME.key };
    return this.#refusal() ?? { ...meant, file: "/home/u/.config/interlink/buses.json" };
  }

  async connectBus(bus: string, operator?: Operator) {
    this.#note("connectBus", { bus, hasOperator: operator instanceof Operator });
    return this.#refusal() ?? { ...BUS, name: bus };
  }

  async disconnectBus(bus?: string) {
    this.#note("disconnectBus", { bus });
    return this.#refusal() ?? { name: bus ?? BUS.name };
  }

  async listBuses() {
    return { buses: [BUS] };
  }

  async send(request: SendRequest): Promise<Sent | ToolRefusal> {
    this.#note("send", request);
    if (this.#scene.isSpent && !this.#isLifted)
      return { code: "budget_spent", budget: { peer: ALICE, over: "peer", refills_at_ms: NOW_MS + 60_000 } };
    return this.#refusal() ?? this.#sent("sent-1");
  }

  async cancelTask(request: { to: string; task_id: string; reason?: string }): Promise<Sent | ToolRefusal> {
    this.#note("cancelTask", request);
    return this.#refusal() ?? this.#sent("cancel-1");
  }

  async messageStatus(msg_id: string) {
    return (
      this.#refusal() ?? { msg_id: `${msg_id}-whole`, peer: ALICE, life: { state: "acked", at_ms: NOW_MS } as const }
    );
  }

  async history(request: { with: string; max: number; before?: number }) {
    this.#note("history", request);
    const out = {
      direction: "out",
      msg_id: "o1",
      at_ms: NOW_MS,
      body: "ours",
      life: { state: "acked", at_ms: 1 },
    } as const;
    const entries = this.#mail.map((message) => ({ direction: "in" as const, ...message }));
    return this.#refusal() ?? { peer: ALICE, entries: [...entries, out], before: 7 };
  }

  async listPending() {
    const life = { state: "pending", lanes: {} } as const;
    const tasks = this.#says.map((task_id) => {
      return { task_id, peer: ALICE, state: "open", owed_by: "us" as const, changed_at_ms: NOW_MS };
    });
    return { unsent: [{ msg_id: "p1", peer: ALICE, life }], tasks };
  }

  async discover(peer?: string): Promise<Discovered | ToolRefusal> {
    this.#note("discover", { peer });
    const sessions = this.#says.map((says, index) => ({
      session: sessionId(`s${index}`),
      name: says,
      cwd: says,
      git_root: says,
      summary: says,
      presence: "live" as const,
      age_ms: 2_000 + index,
      connected: true,
      is_us: false,
    }));
    const stranger = { key: STRANGER.key, fingerprint: STRANGER.fingerprint, sessions };
    const known = { key: ALICE.key, fingerprint: ALICE.fingerprint, peer: ALICE, sessions };
    return this.#refusal() ?? { identities: [stranger, known], view_age_ms: 0 };
  }

  async setSummary(summary: string) {
    return this.#refusal() ?? { summary };
  }

  async requestPair({ key, petname }: { key: string; petname: string }) {
    this.#note("requestPair", { key, petname });
    const life = { state: "pending", lanes: {} } as const;
    const { key: whole, fingerprint: print } = STRANGER;
    return this.#refusal() ?? { key: whole, fingerprint: print, msg_id: "k1", life };
  }

  async pairRequests(): Promise<readonly PairRequestShown[]> {
    const { claimedName: claimed_name, what = "knock" } = this.#scene;
    const { key, fingerprint: print } = STRANGER;
    return claimed_name === undefined
      ? []
      : [{ request_id: print, what, key, fingerprint: print, claimed_name, at_ms: NOW_MS - 120_000 }];
  }

  async findPairRequest(): Promise<PairRequestShown | ToolRefusal> {
    const [request] = await this.pairRequests();
    return this.#refusal() ?? request ?? { code: "unknown_request" };
  }

  async acceptPair(request: string, petname: string, operator: Operator) {
    Operator.check(operator, STRANGER.key);
    this.#note("acceptPair", { request, petname, via: operator.via, nth: ++this.#operators });
    return { ...STRANGER, petname };
  }

  async rejectPair(request: string, operator: Operator) {
    Operator.check(operator, STRANGER.key);
    this.#note("rejectPair", { request, via: operator.via });
    return { fingerprint: STRANGER.fingerprint };
  }

  async peers(): Promise<readonly PeerRef[]> {
    return this.#scene.peers ?? [ALICE];
  }

  async addPeer(petname: string, key: Key, operator: Operator) {
    Operator.check(operator, key);
    this.#note("addPeer", { petname, key, via: operator.via });
    return { petname, key, fingerprint: fingerprint(key) };
  }

  async removePeer(petname: string, operator: Operator) {
    Operator.check(operator, ALICE.key);
    this.#note("removePeer", { petname, via: operator.via });
    return ALICE;
  }

  async findPeer(name: string): Promise<PeerRef | ToolRefusal> {
    return this.#refusal() ?? (name === "alice" ? ALICE : { code: "unknown_peer", candidates: ["alice"] });
  }

  async checkMessages({ max }: { max: number; maxBytes: number }) {
    this.#refusal();
    const messages = this.#mail.slice(this.#read, this.#read + max);
    this.#read += messages.length;
    return { messages, left: this.#mail.length - this.#read };
  }

  async readMessage(msgId: string, offset: number) {
    const message = this.#mail.find(({ msg_id }) => msg_id === msgId);
    if (!message) return { code: "unknown_message" } as const;
    return { ...message, body: message.body.slice(offset) };
  }

  notices(): readonly string[] {
    return this.#scene.notices ?? [];
  }

  onMail(path: WakePath): void {
    this.#path = path;
  }

  heard(): void {
    this.#note("heard");
  }

  wakeChanged(): void {
    this.#note("wakeChanged");
  }

  async liftBudget(peer: Key, operator: Operator): Promise<PeerRef> {
    Operator.check(operator, peer);
    this.#isLifted = true;
    this.#note("liftBudget", { peer, via: operator.via });
    return ALICE;
  }

  humanSeen(): void {
    this.#note("humanSeen");
  }

  begin(): void {
    this.#note("begin");
  }

  async close(withinMs: number): Promise<void> {
    this.#note("close", { withinMs });
  }

  get #says(): readonly string[] {
    return this.#scene.says ?? ["laptop"];
  }

  #refusal(): ToolRefusal | undefined {
    if (this.#scene.fault !== undefined) throw new Error(this.#scene.fault);
    return this.#scene.refusal;
  }

  #sent(msg_id: string): Sent {
    const session = sessionId("s-live");
    const route = this.#scene.route ?? { to: "session", session, presence: "live", age_ms: 1_000 };
    return { peer: ALICE, msg_id, life: { state: "stored", at_ms: NOW_MS, buses: ["bus"] }, route };
  }
}
