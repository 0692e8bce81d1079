/** Bytes as lines, whole or not at all, up to a length. */

const NEWLINE = 0x0a;

/**
 * The SDK closes a pipe after 10 MB without a line's end, so a longer line must not reach it. Tools take 128 KiB; a
 * result of theirs is smaller still.
 */
export const LINE_MAX_BYTES = 8 * 1_024 * 1_024;

export interface LineSink {
  /** Without its end. */
  line(bytes: Buffer): void;
  /** One that was too long is over; nothing of it is kept. */
  tooLong(): void;
}

export class LineReader {
  readonly #sink: LineSink;
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #bytes = 0;
  #isOver = false;

  constructor(sink: LineSink, maxBytes = LINE_MAX_BYTES) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#take(chunk.subarray(from, end));
      this.#end();
      from = end + 1;
    }
    this.#take(chunk.subarray(from));
  }

  #take(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#maxBytes) {
      this.#isOver = true;
      this.#parts = [];
    } else if (part.length > 0) this.#parts.push(part);
  }

  #end(): void {
    const [parts, isOver] = [this.#parts, this.#isOver];
    this.#parts = [];
    this.#bytes = 0;
    this.#isOver = false;
    if (isOver) this.#sink.tooLong();
    else if (parts.length > 0) this.#sink.line(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
  }
}
