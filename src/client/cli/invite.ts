/** `interlink-edge invite`: one string, with which somebody else's `setup` finds the bus and us. */

import { randomBytes } from "node:crypto";
import { encodeBase64url } from "../../protocol/base64url.ts";
import { INVITE_MAX_MS } from "../../protocol/constants.ts";
import { isName } from "../../protocol/schema.ts";
import { isOk } from "../bus/outcome.ts";
import { keepMadeInvite } from "../state/invitations.ts";
import { openPairing } from "../state/open-pairing.ts";
import { isoOf } from "../tools/escape.ts";
import { loadIdentity, throwawayIdentity } from "../trust/identity-file.ts";
import { formatInvite, SECRET_BYTES } from "../trust/invite-text.ts";
import { askerAt, refuseOutcome, type Asker } from "./asker.ts";
import type { CommandRun } from "./command-line.ts";
import { askerOf, type Desk } from "./desk.ts";
import { readRecord, recordPath } from "./setup-record.ts";
import { refuse, report, type ExitCode } from "./terminal.ts";
import { wordsOfFile, wordsOfState } from "./words.ts";

export async function invite(desk: Desk, command: CommandRun<"invite">): Promise<ExitCode> {
  const { terminal, me, settings, machine, keyPath, stateDirectory: directory, nowMs } = desk;
  const record = readRecord(recordPath(keyPath));
  const known = "refused" in record ? undefined : record.name;
  const name = command.name ?? settings.name ?? known ?? machine.user;
  if (!isName(name))
    return refuse(terminal, "a name is 1 to 64 bytes of visible text; say one: --name NAME", "bad_name");
  const asker = askerOf(desk);
  if (typeof asker === "number") return asker;
  const way = await wayIn(desk, asker, command.adminKey);
  if (typeof way === "number") return way;

  const opened = openPairing({ directory, me, nowMs });
  if ("refusal" in opened) return refuse(terminal, wordsOfState(opened), opened.refusal);
  const secret = encodeBase64url(randomBytes(SECRET_BYTES));
  keepMadeInvite(opened.pairing, { secret, at_ms: nowMs });
  opened.pairing.close();

  const { token, expires_at_ms } = way;
  const text = formatInvite({ bus: asker.url, key: me, name, secret, ...(token !== undefined && { token }) });
  const until = expires_at_ms === undefined ? {} : { expires_at_ms };
  report(terminal, { invite: text, bus: asker.url.origin, name, ...until }, [text]);
  terminal.err(`For one person, who types: interlink-edge setup ${text.slice(0, 18)}…`);
  if (expires_at_ms !== undefined) terminal.err(`Good until ${isoOf(expires_at_ms)}. Whoever has it may use it.`);
  if (asker.url.reach === "loopback")
    terminal.err("This bus is on this machine, so it is for other identities on this machine.");
  terminal.err("When they knock, `interlink-edge pair list` shows them.");
  return 0;
}

/** A token where the bus asks for one. */
async function wayIn(
  desk: Desk,
  asker: Asker,
  adminKey: string | undefined,
): Promise<{ readonly token?: string; readonly expires_at_ms?: number } | ExitCode> {
  const { terminal, peers, home } = desk;
  const admin = adminKey === undefined ? desk.identity : loadIdentity(adminKey);
  if (admin === undefined) return refuse(terminal, `there is no file ${adminKey}`, "no_key");
  if ("refused" in admin) return refuse(terminal, wordsOfFile(admin), admin.refused);
  if ("refused" in home) throw new Error("an asker without a bus");
  const minted = await askerAt(home.bus, home.profile, admin, peers).http.invite(INVITE_MAX_MS);
  if (isOk(minted)) return minted.ok;
  if (!("refused" in minted) || minted.refused !== "not_owner" || adminKey !== undefined)
    return refuseOutcome(terminal, minted, asker.url);
  // Only an admin key may invite; where everybody is admitted nobody needs to.
  return (await admitsAll(desk))
    ? {}
    : refuse(
        terminal,
        "this bus admits only who was invited, and our key may not invite; whoever runs it can, or names our key in ADMIN_KEYS",
        "not_owner",
      );
}

/** A key that nobody knows asks: it is let in, or told that it is not admitted. */
async function admitsAll({ home, peers }: Desk): Promise<boolean> {
  if ("refused" in home) return false;
  const stranger = throwawayIdentity();
  const seen = await askerAt(home.bus, home.profile, stranger, peers).http.rosterOf(stranger.key);
  return isOk(seen);
}
