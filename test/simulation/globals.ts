/**
 * The globals that production code takes from its runtime, in virtual time and by the seed. Real for whoever is no part of
 * a simulation: nothing but it runs in this process.
 */

import { createHash, createPublicKey, verify, type KeyObject } from "node:crypto";
import { current, lifeNow, type Life } from "./life.ts";
import { BusSocketPair } from "./platform/bus-socket.ts";
import { SimRequest, SimResponse } from "./platform/web.ts";
import type { Planned } from "./scheduler.ts";

const real = { Date: Date.now, setTimeout, clearTimeout, random: Math.random };

class AutoAnswerPair {
  readonly request: string;
  readonly response: string;

  constructor(request: string, response: string) {
    this.request = request;
    this.response = response;
  }
}

export function replaceGlobals(): void {
  const replaced: Record<string, unknown> = {
    Request: SimRequest,
    Response: SimResponse,
    WebSocketPair: BusSocketPair,
    WebSocketRequestResponsePair: AutoAnswerPair,
    WebSocket: { READY_STATE_OPEN: 1 },
    setTimeout: (run: () => void, delayMs = 0) => {
      const life = current.getStore();
      return life ? setTimer(life, run, delayMs) : real.setTimeout(run, delayMs);
    },
    clearTimeout: (timer: Planned | NodeJS.Timeout) => {
      if (current.getStore()) clearTimer(timer as Planned);
      else real.clearTimeout(timer as NodeJS.Timeout);
    },
    crypto: {
      subtle: { digest, importKey, verify: verifyLater },
      getRandomValues: (bytes: Uint8Array) => {
        bytes.set(lifeNow().world.dice.bytes(bytes.length));
        return bytes;
      },
    },
    console: { log: (line: string) => told(line), error: (line: string) => told(line) },
  };
  for (const [name, value] of Object.entries(replaced)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  Date.now = () => current.getStore()?.now() ?? real.Date();
  Math.random = () => current.getStore()?.world.dice.next() ?? real.random();
}

export function setTimer(life: Life, run: () => void, delayMs: number): Planned {
  life.effect("timer");
  const { scheduler, dice } = life.world;
  return scheduler.after(delayMs + dice.between(0, 2), "timer rings", run, life);
}

export function clearTimer(timer: Planned | undefined): void {
  if (timer) timer.isOff = true;
}

/** What production code writes to its log. A fault of what is dead is none. */
function told(line: string): void {
  const life = current.getStore();
  if (!life) process.stdout.write(`${line}\n`);
  else if (!life.isDead) life.world.onLog(line, life);
}

async function digest(_: "SHA-256", bytes: Uint8Array): Promise<ArrayBuffer> {
  return Uint8Array.from(createHash("sha256").update(bytes).digest()).buffer;
}

async function importKey(_: "raw", bytes: Uint8Array): Promise<KeyObject> {
  const x = Buffer.from(bytes).toString("base64url");
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
}

/** Verified at once, and told at once or later: on a real machine one thread may be done before another. */
async function verifyLater(_: "Ed25519", key: KeyObject, signature: Uint8Array, bytes: Uint8Array): Promise<boolean> {
  const life = lifeNow();
  if (life.isDead) return new Promise(() => {});
  const isTrue = verifyOnce(key, signature, bytes);
  const { scheduler, dice, profile } = life.world;
  if (profile.slowCrypto === 0 || !dice.chance(profile.slowCrypto)) return isTrue;
  return new Promise((resolve) => scheduler.after(dice.between(0, 5), "verified", () => resolve(isTrue), life));
}

/** Rosters are read often, and show the same signatures each time. What is the same in all three is as true as before. */
const verified = new Map<string, { readonly key: KeyObject; readonly bytes: Uint8Array; readonly isTrue: boolean }>();
const VERIFIED_MAX = 4_096;

function verifyOnce(key: KeyObject, signature: Uint8Array, bytes: Uint8Array): boolean {
  const name = Buffer.from(signature).toString("latin1");
  const known = verified.get(name);
  if (known && known.key.equals(key) && Buffer.compare(known.bytes, bytes) === 0) return known.isTrue;
  if (verified.size >= VERIFIED_MAX) verified.clear();
  const isTrue = verify(null, bytes, key, signature);
  verified.set(name, { key, bytes: Uint8Array.from(bytes), isTrue });
  return isTrue;
}
