/** Sockets' names that killed agents leave: gone once somebody finds them dead, and nobody else's with them. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { dial, removeName, stampOf } from "../../../src/client/wake/dial.ts";
import { addressesOf, hookPlace, type HookPlace } from "../../../src/client/wake/hook-address.ts";
import { askAgent } from "../../../src/client/wake/hook-client.ts";
import { HookServer } from "../../../src/client/wake/hook-server.ts";
import { askAgents } from "../../../src/client/wake/roll-call.ts";

const HOUR_S = 3_600;
const ASK = { ask: "human" } as const;

function folder(): { readonly path: string; readonly place: HookPlace } {
  const path = mkdtempSync(join(tmpdir(), "il-dead-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return { path, place: hookPlace(path, "linux", true)! };
}

/** The name of a process that was killed while it listened. */
async function dead(path: string, ageS = HOUR_S): Promise<string> {
  const listens = `require("node:net").createServer().listen(${JSON.stringify(path)}, () => console.log("listens"))`;
  const child = spawn(process.execPath, ["-e", listens], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "close");
  const atS = Date.now() / 1_000 - ageS;
  utimesSync(path, atS, atS);
  return path;
}

async function listen(path: string): Promise<Server> {
  const server = createServer((socket) => socket.on("error", () => {}).end("here\n"));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
  return server;
}

async function agentAt(place: HookPlace, thread: string): Promise<HookServer> {
  const server = new HookServer(place, { asked: async () => ({ say: "done" }) }, () => {});
  await server.listen({ thread });
  onTestFinished(() => server.close());
  return server;
}

it("the roll call removes them; what is young, listens or is no socket stays", async () => {
  const { path } = folder();
  await Promise.all([dead(join(path, "one.sock")), dead(join(path, "two.sock")), dead(join(path, "young.sock"), 5)]);
  await listen(join(path, "lives.sock"));
  writeFileSync(join(path, "file.sock"), "");
  symlinkSync(join(path, "young.sock"), join(path, "link.sock"));
  for (const name of ["lives.sock", "file.sock"]) utimesSync(join(path, name), 1, 1);
  expect(await askAgents(path, "linux")).toEqual([]);
  expect(readdirSync(path).sort()).toEqual(["file.sock", "link.sock", "lives.sock", "secret", "young.sock"]);
  const again = await dial(join(path, "lives.sock"), 1_000);
  expect(again).toBeDefined();
  again!.destroy();
});

it("a hook removes the one that it asked behind, and goes on to the next", async () => {
  const { place } = folder();
  const [socket, thread] = addressesOf(place, { socket: "s", thread: "t" }) as [string, string];
  await dead(socket);
  await agentAt(place, "t");
  const talk = await askAgent(place, { socket: "s", thread: "t" }, ASK);
  expect(talk?.first).toEqual({ say: "done" });
  talk!.close();
  expect([existsSync(socket), existsSync(thread)]).toEqual([false, true]);
});

it("whoever takes the name before it is removed keeps it", async () => {
  const { path } = folder();
  const address = await dead(join(path, "x.sock"));
  const found = stampOf(address)!;
  rmSync(address);
  await listen(address);
  expect(removeName(address, found)).toBe(false);
  const socket = await dial(address, 1_000);
  expect(socket).toBeDefined();
  socket!.destroy();
  expect(readdirSync(path).filter((name) => name.startsWith("x.sock"))).toEqual(["x.sock"]);
});

it("of agents that replace a dead one at once, while it is swept, one is found and none is lost", async () => {
  const { path, place } = folder();
  for (let round = 0; round < 20; round++) {
    const thread = `t${round}`;
    const [address] = addressesOf(place, { thread }) as [string];
    const left = join(path, `left-${round}`);
    await (round === 0 ? dead(left) : listen(left).then((server) => kept(server, left)));
    renameSync(left, address);
    utimesSync(address, 1, 1);
    const all = [agentAt(place, thread), agentAt(place, thread), askAgents(path, "linux"), agentAt(place, thread)];
    await Promise.all([...all, askAgent(place, { thread }, ASK).then((talk) => talk?.close())]);
    const talk = await askAgent(place, { thread }, ASK);
    expect(talk?.first, `round ${round}`).toEqual({ say: "done" });
    talk!.close();
    expect(lstatSync(address).isSocket()).toBe(true);
  }
  expect(readdirSync(path).filter((name) => !/\.sock$|^secret$/.test(name))).toEqual([]);
});

/** Closed, and its name is there still: closing removes the name that it was given. */
async function kept(server: Server, path: string): Promise<void> {
  renameSync(path, `${path}.kept`);
  await new Promise((resolve) => server.close(resolve));
  renameSync(`${path}.kept`, path);
}
