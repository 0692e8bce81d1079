/** PURE. Who is there, for a person and for a program. What sessions say of themselves is quoted and escaped. */

import type { Discovered, DiscoveredSession } from "../session/agent.ts";
import { ageOf } from "../tools/ages.ts";
import { quoted } from "../tools/escape.ts";
import { wakeSeen } from "../tools/render-wake.ts";
import { paint, table, type Terminal } from "./terminal.ts";

type Identity = Discovered["identities"][number];

/** What we call them: a petname, or the fingerprint of a stranger. */
export function whoIs({ peer, fingerprint }: Identity): string {
  return peer === undefined ? `stranger ${fingerprint}` : quoted(peer.petname);
}

export function rosterLines(terminal: Terminal, { identities }: Discovered): string[] {
  const rows = identities.flatMap((identity) => {
    const sessions = identity.sessions.map((session) => rowOf(terminal, identity, session));
    return sessions.length > 0 ? sessions : [[whoIs(identity), identity.fingerprint, "no session", "", "", ""]];
  });
  return table(terminal, rows).map((line) => line.trimEnd());
}

function rowOf(terminal: Terminal, identity: Identity, session: DiscoveredSession): string[] {
  const { presence, age_ms, name, git_root, summary, wake } = session;
  // What a stranger says beside its name is for those who trust it.
  const about =
    identity.peer === undefined
      ? []
      : [...[git_root, summary].flatMap((text) => (text ? [quoted(text)] : [])), wakeSeen(wake)];
  return [
    whoIs(identity),
    identity.fingerprint,
    session.session,
    paint(terminal, presence === "live" ? "green" : "yellow", presence),
    ageOf(age_ms),
    [`calls itself ${quoted(name)}`, ...about].join(", "),
  ];
}
