// Reads what page_packing.cpp writes.
'use strict';

class PackedTable {
  constructor(bytes) {
    this.bytes = bytes;
    this.place = 0;
  }

  /** Inflates a table from its text. */
  static async read(text) {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new PackedTable(new Uint8Array(await new Response(stream).arrayBuffer()));
  }

  /** An integer below 2^53. */
  next() {
    let number = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.place++];
      number += (byte & 127) * scale;
      if (byte < 128) return number;
      scale *= 128;
    }
  }

  nextSigned() {
    const number = this.next();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }

  column(rows, type = Uint32Array) {
    const column = new type(rows);
    for (let i = 0; i < rows; ++i) column[i] = this.next();
    return column;
  }

  /** Each number is the one before and what is added to it. */
  differences(rows, type = Int32Array) {
    const column = new type(rows);
    let number = 0;
    for (let i = 0; i < rows; ++i) column[i] = number += this.nextSigned();
    return column;
  }
}
