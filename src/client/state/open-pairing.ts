/** Opens the file of an identity's pairing: for a moment one process has it alone, then all do. */

import type { Key } from "../../protocol/address.ts";
import { adoptFormerFiles } from "./former-pairing.ts";
import { openFile, type StateRefusal } from "./open-file.ts";
import { PairingStore } from "./pairing-store.ts";
import { pairingPath } from "./paths.ts";
import { PAIRING_SCHEMA } from "./schema.ts";

export interface OpenPairing {
  /** The folder of the sessions' files. */
  readonly directory: string;
  readonly me: Key;
  readonly nowMs: number;
  readonly uid?: number | undefined;
}

export interface OpenedPairing {
  readonly pairing: PairingStore;
  /** As of a session's file. */
  readonly setAside?: string;
}

/** Opening takes milliseconds, more where a large folder's old files are read for the first time. */
const OPENING_WAIT_MS = 5_000;

/** Opens, or makes, the file. Throws where the disk refuses. */
export function openPairing({ directory, me, nowMs, uid }: OpenPairing): OpenedPairing | StateRefusal {
  const path = pairingPath(directory, me);
  const opened = openFile({ path, schema: PAIRING_SCHEMA, nowMs, uid, lockWaitMs: OPENING_WAIT_MS });
  if ("refusal" in opened) return opened;
  const { database, lock, setAside } = opened;
  try {
    const pairing = new PairingStore(database);
    adoptFormerFiles(pairing, { directory, me, nowMs });
    return { pairing, ...(setAside !== undefined && { setAside }) };
  } catch (fault) {
    database.close();
    throw fault;
  } finally {
    lock.release();
  }
}
