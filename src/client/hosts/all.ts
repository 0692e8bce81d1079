/** Every host that `setup` knows, in the order in which it names them. */

import { claudeCode } from "./claude-code.ts";
import { codex } from "./codex.ts";
import { cursor } from "./cursor.ts";
import { geminiCli } from "./gemini-cli.ts";
import type { Host } from "./host.ts";
import { opencode } from "./opencode.ts";
import { vscode } from "./vscode.ts";

export const HOSTS: readonly Host[] = [claudeCode, codex, opencode, geminiCli, vscode, cursor];
