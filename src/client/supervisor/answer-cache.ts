/** The answers on disk, for the next start: read if they are of this version, else the copy that comes with the code. */

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ensurePrivateDirectory, OTHERS_MAY_NOT, readPrivateFile, replacePrivateFile } from "../trust/private-file.ts";
import { VERSION } from "../version.ts";
import { parseAnswers, type Answers } from "./answers.ts";

/** Many times what the tools' schemas take. */
const MAX_BYTES = 1_024 * 1_024;
const BUILT_IN = join(import.meta.dirname, "built-in-answers.json");

/** @param path of the file; there is none until a process has answered otherwise than the built-in copy */
export function loadAnswers(path: string): Answers {
  return readKept(path) ?? builtInAnswers();
}

/** Made from the tools; a test compares them. */
export function builtInAnswers(): Answers {
  const answers = parseAnswers(JSON.parse(readFileSync(BUILT_IN, "utf8")));
  if (!answers) throw new Error("the built-in answers are damaged");
  return answers;
}

/** Keeps them for the next start. @throws what the system says */
export function saveAnswers(path: string, answers: Answers): void {
  const refusal = ensurePrivateDirectory(dirname(path));
  if (refusal) throw new Error(`${refusal.path}: ${refusal.refused}`);
  replacePrivateFile(path, JSON.stringify(answers));
}

/** What others might have written is not shown to a model, and a damaged file is no reason not to start. */
function readKept(path: string): Answers | undefined {
  try {
    const file = readPrivateFile(path, { forbiddenMode: OTHERS_MAY_NOT.write, maxBytes: MAX_BYTES });
    if (!file || "refused" in file) return undefined;
    const answers = parseAnswers(JSON.parse(file.text));
    return answers?.version === VERSION ? answers : undefined;
  } catch {
    return undefined;
  }
}
