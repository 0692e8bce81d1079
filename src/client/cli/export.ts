/** `interlink-edge export`: everything that is kept of this identity on this machine, a line of JSON each. The key only where it is asked for. */

import { fingerprint } from "../../protocol/address.ts";
import { identityFiles } from "../state/identity-files.ts";
import { openPairing } from "../state/open-pairing.ts";
import { lookInto, sessionFilesHere, type SessionFile, type SessionLook } from "../state/session-files.ts";
import { jsonLine } from "../tools/escape.ts";
import { readBuses } from "../trust/buses-file.ts";
import { OTHERS_MAY_NOT, readPrivateFile } from "../trust/private-file.ts";
import type { CommandRun } from "./command-line.ts";
import type { Desk } from "./desk.ts";
import { furtherBus, leftOut, linesOfLeftOut, wordsOfPassedOver } from "./left-out.ts";
import { NO_RECORD, readRecord, recordPath } from "./setup-record.ts";
import { refuse, type ExitCode } from "./terminal.ts";
import { complaint, wordsOfFile, wordsOfPeers, wordsOfSession, wordsOfState } from "./words.ts";

const PAGE = 500;
const KEY_FILE_MAX_BYTES = 4_096;

export function exportAll(desk: Desk, { withKey }: CommandRun<"export">): ExitCode {
  const { terminal, me, keyPath, peers, settings, stateDirectory: directory, nowMs } = desk;
  const line = (kind: string, value: object): void => terminal.out(jsonLine({ kind, ...value }));
  const book = peers.current();
  if ("refused" in book) return refuse(terminal, wordsOfPeers(book), book.refused);
  const secret = withKey
    ? readPrivateFile(keyPath, { forbiddenMode: OTHERS_MAY_NOT.read, maxBytes: KEY_FILE_MAX_BYTES })
    : undefined;
  if (secret && "refused" in secret) return refuse(terminal, wordsOfFile(secret), secret.refused);
  const opened = openPairing({ directory, me, nowMs });
  if ("refusal" in opened) return refuse(terminal, wordsOfState(opened), opened.refusal);

  line("identity", { key: me, fingerprint: fingerprint(me), ...(secret && { private_key: secret.text.trim() }) });
  const buses = readBuses(settings.buses);
  if (!("refused" in buses))
    for (const { name, urls, profile } of buses.values())
      line("bus", { name, urls: urls.map(({ origin }) => origin), profile });
  for (const [petname, key] of book.keys) line("peer", { petname, key, fingerprint: fingerprint(key) });
  for (const skipped of book.skipped) line("skipped_peer", skipped);
  for (const [part, entries] of Object.entries(opened.pairing.read()) as [string, object[]][])
    for (const entry of entries) line("pairing", { part, entry });
  opened.pairing.close();
  const record = readRecord(recordPath(keyPath));
  for (const { host, path } of ("refused" in record ? NO_RECORD : record).writes) line("host", { host, path });

  const here = sessionFilesHere(directory, me);
  let passedOver = 0;
  for (const file of here.ours) {
    if (lookInto(file, (look) => exportSession(file, look, line)) === undefined) passedOver++;
  }
  if (passedOver > 0) terminal.err(wordsOfPassedOver(passedOver));
  if ("refused" in buses) terminal.err(complaint(wordsOfSession({ refused: "buses_file", why: buses })));
  for (const path of identityFiles(directory, me, keyPath).setAside)
    terminal.err(`Not in it, for it could not be read and was set aside: ${path}`);
  for (const text of linesOfLeftOut(leftOut(desk, here), "export")) terminal.err(text);
  return 0;
}

function exportSession(
  file: SessionFile,
  { inbox, outbox, tasks }: SessionLook,
  line: (kind: string, value: object) => void,
): true {
  const where = { session: file.session, ...furtherBus(file) };
  for (let seq = 0; ;) {
    const page = inbox.after(seq, PAGE);
    for (const message of page) line("received", { ...where, ...message });
    if (page.length < PAGE) break;
    seq = page.at(-1)!.seq;
  }
  for (let seq = 0; ;) {
    const page = outbox.after(seq, PAGE);
    for (const { payload, ...sent } of page)
      line("written", { ...where, ...sent, payload: JSON.parse(payload) as object });
    if (page.length < PAGE) break;
    seq = page.at(-1)!.seq;
  }
  for (const task of tasks.open()) line("task", { ...where, ...task });
  return true;
}
