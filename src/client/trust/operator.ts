/**
 * Proof that a person decided. Every change of trust asks for one, so that none can be written by accident in a
 * path that a message or a model drives.
 *
 * Made by {@link Operator.attest} in two places only: a CLI command on a terminal, and the answer to an elicitation that the
 * host showed; test/architecture.test.ts holds that. The type is nominal, and each use checks at run time that the object is a real one and about the
 * key at hand: what was shown to the person is what is changed.
 */

import type { Key } from "../../protocol/address.ts";

/** Where the person said so. */
export type OperatorChannel = "cli" | "elicitation";

export class Operator {
  readonly #key: Key;
  readonly via: OperatorChannel;

  private constructor(key: Key, via: OperatorChannel) {
    this.#key = key;
    this.via = via;
  }

  /** @param key whose trust is changed, as it was shown to the person */
  static attest(key: Key, via: OperatorChannel): Operator {
    return new Operator(key, via);
  }

  /** Throws, because it is a fault of ours, if this is no proof or one about another key. */
  static check(proof: Operator, key: Key): void {
    if (!(#key in proof) || proof.#key !== key) throw new Error("a change of trust without its operator");
  }
}
