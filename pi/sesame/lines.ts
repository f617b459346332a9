/** Bytes as they come, into whole lines. Cut at LF in bytes: a character may straddle two chunks, and U+2028 is none of our line ends. */

export class TooLong extends Error {}

export class Lines {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #size = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that this chunk ends. Throws TooLong when one has more than the allowed bytes. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      this.#keep(chunk.subarray(from, end));
      lines.push(Buffer.concat(this.#parts).toString("utf8"));
      this.#parts = [];
      this.#size = 0;
      from = end + 1;
    }
    this.#keep(chunk.subarray(from));
    return lines;
  }

  #keep(part: Buffer): void {
    this.#size += part.length;
    if (this.#size > this.#maxBytes) throw new TooLong(`a line of more than ${this.#maxBytes} bytes`);
    if (part.length > 0) this.#parts.push(part);
  }
}
