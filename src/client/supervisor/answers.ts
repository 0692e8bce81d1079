/**
 * PURE. What is answered before any process has been asked: the greetings of both eras and the list of tools, as the last
 * process gave them, with the supervisor's own tool.
 *
 * A tool that was listed once stays listed, for a host may never ask again; a call of it is refused in words.
 */

import { RECONNECT, RECONNECT_TOOL } from "../tools/render-lifecycle.ts";
import { negotiate } from "./era.ts";
import { isRecord, type Params } from "./frame.ts";

export interface Tool extends Params {
  readonly name: string;
}

/** What a process of one version answers. */
export interface Answers {
  readonly version: string;
  /** The result of `initialize` without its `protocolVersion`. */
  readonly initialize: Params;
  /** The result of `server/discover`. */
  readonly discover: Params;
  readonly tools: readonly Tool[];
  /** What the modern era has in the result of `tools/list` beside the tools. */
  readonly list: Params;
}

/** Reads a kept copy; undefined: it is none. */
export function parseAnswers(value: unknown): Answers | undefined {
  if (!isRecord(value)) return undefined;
  const { version, initialize, discover, tools, list } = value;
  if (typeof version !== "string" || !isRecord(initialize) || !isRecord(discover) || !isRecord(list)) return undefined;
  const isWhole = areTools(tools) && revisionsOf(discover).length > 0 && isRecord(initialize["capabilities"]);
  return isWhole ? { version, initialize, discover, tools, list } : undefined;
}

/** The answers with what a process has just said; the same object if it is nothing new. */
export function learn(answers: Answers, what: "initialize" | "discover" | "tools", result: Params): Answers {
  const learned = merge(answers, what, result);
  return JSON.stringify(learned) === JSON.stringify(answers) ? answers : learned;
}

function merge(answers: Answers, what: "initialize" | "discover" | "tools", result: Params): Answers {
  switch (what) {
    case "initialize": {
      const { protocolVersion: _, ...initialize } = result;
      return { ...answers, initialize, version: versionOf(result) ?? answers.version };
    }
    case "discover":
      if (revisionsOf(result).length === 0) return answers;
      return { ...answers, discover: result, version: versionOf(result) ?? answers.version };
    case "tools": {
      const { tools, ...list } = result;
      // An empty list is a process that is not whole, and would hide everything.
      if (!areTools(tools)) return answers;
      // An older client's result has nothing beside the tools.
      return { ...answers, tools, ...(Object.keys(list).length > 0 && { list }) };
    }
  }
}

/**
 * For a host that is to have a channel, which the older era alone has: no modern revision, so that a probe is refused and the
 * host goes on to `initialize`; and the channel in what that answers.
 */
export function withChannel({ initialize, ...answers }: Answers): Answers {
  const capabilities = isRecord(initialize["capabilities"]) ? initialize["capabilities"] : {};
  const experimental = { "claude/channel": {} };
  return {
    ...answers,
    discover: { supportedVersions: [] },
    initialize: { ...initialize, capabilities: { ...capabilities, experimental } },
  };
}

/** The result of an `initialize`. */
export function initializeResult({ initialize }: Answers, asked: Params): Params {
  return { protocolVersion: negotiate(asked), ...initialize };
}

/** The tools as the host has them: those of the process, those that are gone, and our own. */
export function listed({ tools }: Answers, before: readonly Tool[]): readonly Tool[] {
  const has = new Set([...tools.map(({ name }) => name), RECONNECT]);
  const gone = before.filter(({ name }) => !has.has(name));
  return [...tools.filter(({ name }) => name !== RECONNECT), ...gone, RECONNECT_TOOL];
}

/** The modern revisions that the process speaks. */
export function revisionsOf({ supportedVersions }: Params): readonly string[] {
  const all = Array.isArray(supportedVersions) ? (supportedVersions as unknown[]) : [];
  return all.filter((revision) => typeof revision === "string");
}

/** The version that a result names as its server's. */
export function versionOf(result: Params): string | undefined {
  const meta = isRecord(result["_meta"]) ? result["_meta"]["io.modelcontextprotocol/serverInfo"] : undefined;
  const info = result["serverInfo"] ?? meta;
  const version = isRecord(info) ? info["version"] : undefined;
  return typeof version === "string" ? version.slice(0, VERSION_MAX_CHARS) : undefined;
}

/** A version is told to a model. */
const VERSION_MAX_CHARS = 64;

function areTools(tools: unknown): tools is readonly Tool[] {
  if (!Array.isArray(tools) || tools.length === 0) return false;
  return (tools as unknown[]).every((tool) => isRecord(tool) && typeof tool["name"] === "string");
}
