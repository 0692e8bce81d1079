/**
 * What arrives while a commit is on its way to the disk shares the next one.
 *
 * The platform commits what one turn wrote and holds every answer until that is durable, but it syncs
 * once per turn, one after another. Letting arrivals wait for the sync under way gives one sync to all
 * of them; alone, an arrival waits for nothing.
 */

interface Waiting {
  readonly run: () => void;
}

export class GroupCommit {
  readonly #storage: DurableObjectStorage;
  readonly #onRollback: () => void;
  #waiting: Waiting[] = [];
  #isSyncing = false;

  /** @param onRollback told when a piece of work threw and its writes were undone: caches may be wrong */
  constructor(storage: DurableObjectStorage, onRollback: () => void) {
    this.#storage = storage;
    this.#onRollback = onRollback;
  }

  /**
   * Runs `work` in a transaction of its own within the shared commit: a throw undoes its writes alone and
   * rejects. The result may be answered at once; the platform lets no answer out before the commit.
   */
  run<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        run: () => {
          try {
            resolve(this.#storage.transactionSync(work));
          } catch (fault) {
            this.#onRollback();
            reject(fault);
          }
        },
      });
      if (!this.#isSyncing) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#isSyncing = true;
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting;
        this.#waiting = [];
        for (const { run } of batch) run();
        // A commit that failed has reset the object, and with it whoever waits for an answer.
        await this.#storage.sync().catch(() => undefined);
      }
    } finally {
      this.#isSyncing = false;
    }
  }
}
