// The timeline: rows of boxes on a canvas, with zoom, a cursor and shares of what is too small.
'use strict';

/** Pixels over which boxes too small to be seen are taken together. */
const SHARE_WIDTH = 3;


/** Rows of boxes: for each row a list of {start, end, kind, op, stage, microbatch} as columns. */
class Boxes {
  constructor(count) {
    this.start = new Float64Array(count);
    this.end = new Float64Array(count);
    this.op = new Uint8Array(count);
    this.stage = new Uint32Array(count);
    this.microbatch = new Int32Array(count);
    this.count = 0;
  }
  add(start, end, op, stage, microbatch) {
    const i = this.count++;
    this.start[i] = start;
    this.end[i] = end;
    this.op[i] = op;
    this.stage[i] = stage;
    this.microbatch[i] = microbatch;
  }
  /** By start; the halves of a pair stay neighbours. */
  sort() {
    const order =
        Array.from({length: this.count}, (_, i) => i).sort((a, b) => this.start[a] - this.start[b]);
    for (const name of ['start', 'end', 'op', 'stage', 'microbatch']) {
      const column = this[name];
      this[name] = column.constructor.from(order, (i) => column[i]);
    }
    return this;
  }
  /**
   * The first box that ends after the time, as far as boxes do not overlap; a little before else.
   */
  firstAfter(time) {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] <= time)
        low = middle + 1;
      else
        high = middle;
    }
    return Math.max(0, low - 2);
  }
  at(time) {
    for (let i = this.firstAfter(time); i < this.count && this.start[i] <= time; ++i)
      if (this.end[i] > time) return i;
    return -1;
  }
}

function boxesOf(program, times) {
  return worksOfDevices(program).map(([first, end]) => {
    const boxes = new Boxes(end - first);
    for (let w = first; w < end; ++w) {
      const kind = OPS[program.op[w]].kind;
      if (kind === 'send' || kind === 'receive' || times.end[w] <= times.start[w]) continue;
      boxes.add(
          times.start[w], times.end[w], program.op[w], program.stage[w], program.microbatch[w]);
    }
    return boxes.sort();
  });
}

function messagesOf(program, times) {
  const messages = [];
  worksOfDevices(program).forEach(([first, end], device) => {
    for (let w = first; w < end; ++w) {
      if (OPS[program.op[w]].kind === 'send')
        messages.push([device, program.peer[w] - 1, times.start[w], times.end[w]]);
    }
  });
  return messages.sort((a, b) => a[2] - b[2]);
}

/** A timeline of page_program.cpp: rows of boxes. */
async function readTimeline(text) {
  const table = await PackedTable.read(text);
  const counts = [];
  for (let left = table.next(); left > 0; --left) counts.push(table.next());
  const works = counts.reduce((sum, count) => sum + count, 0);
  const op = table.column(works, Uint8Array);
  const stage = table.column(works);
  const microbatch = table.differences(works);
  const start = table.differences(works, Float64Array);
  const time = table.column(works, Float64Array);
  let next = 0;
  return counts.map((count) => {
    const boxes = new Boxes(count);
    for (let left = count; left > 0; --left, ++next)
      boxes.add(start[next], start[next] + time[next], op[next], stage[next], microbatch[next]);
    return boxes.sort();
  });
}

class Timeline {
  /** names: of the rows. Below each row, `second` may have other rows (what was measured). */
  /** On paper its rows are as high as fits into so many pixels. */
  constructor(label, names, paperHeight = paper.height) {
    this.names = names;
    this.paperHeight = paperHeight;
    this.rows = [];
    this.second = null;
    this.messages = [];
    this.from = 0;
    this.until = 1;
    this.cursor = null;  // [row, box]
    this.surface = new Surface({
      tabindex: '0',
      role: 'application',
      'aria-label': label,
      'aria-roledescription': 'timeline'
    });
    this.listen();
  }

  get canvas() {
    return this.surface.canvas;
  }

  show(rows, messages = [], second = null) {
    const ends = rows.concat(second || [])
                     .map(
                         (row) => row.count ?
                             Math.max(...row.end.subarray(Math.max(0, row.count - 4), row.count)) :
                             0);
    const length = Math.max(1, ...ends);
    const wasAll = this.from === 0 && this.until === this.length;
    this.rows = rows;
    this.messages = messages;
    this.second = second;
    if (this.length === undefined || wasAll) {
      this.from = 0;
      this.until = length;
    }
    this.length = length;
    this.cursor = null;
    this.clamp();
    this.draw();
  }

  clamp() {
    const span = Math.min(Math.max(this.until - this.from, Math.min(this.length, 50)), this.length);
    this.from = Math.min(Math.max(0, this.from), this.length - span);
    this.until = this.from + span;
  }

  zoom(factor, at = (this.from + this.until) / 2) {
    this.from = at - (at - this.from) / factor;
    this.until = at + (this.until - at) / factor;
    this.clamp();
    this.draw();
  }

  pan(part) {
    const by = part * (this.until - this.from);
    this.from += by;
    this.until += by;
    this.clamp();
    this.draw();
  }

  all() {
    this.from = 0;
    this.until = this.length;
    this.draw();
  }

  get isWhole() {
    return this.from === 0 && this.until === this.length;
  }

  rowHeight() {
    const most = this.second ? 34 : 24;
    const room = (paper.isOn ? this.paperHeight : 760) / Math.max(1, this.rows.length);
    const least = paper.isOn ? 2 : this.second ? 9 : 5;
    return Math.max(least, Math.min(most, Math.floor(room) - 3));
  }

  draw() {
    if (!this.rows.length) return;
    const height = this.rowHeight();
    const gap = height > 10 ? 4 : 2;
    const surface = this.surface;
    surface.prepare(this.rows.length * (height + gap) + 22);
    const c = surface.context;
    const widest = Math.max(...this.names.map((name) => c.measureText(name).width));
    this.left = Math.min(Math.ceil(widest) + 10, Math.round(surface.width * 0.28));
    this.scale = (surface.width - this.left - 2) / (this.until - this.from);
    this.tops = this.rows.map((_, row) => row * (height + gap));
    this.height = height;
    const colors = KINDS.map(styleValue);
    const ink = styleValue('muted');
    const nameEvery = Math.ceil(13 / (height + gap));
    this.rows.forEach((row, i) => {
      c.fillStyle = styleValue('idle');
      c.fillRect(this.left, this.tops[i], surface.width - this.left - 2, height);
      if (i % nameEvery === 0) {
        c.fillStyle = ink;
        c.textAlign = 'right';
        c.textBaseline = 'middle';
        c.fillText(this.names[i], this.left - 6, this.tops[i] + height / 2, this.left - 8);
      }
      if (this.second) {
        const half = Math.floor(height / 2);
        this.drawRow(c, row, this.tops[i], half - 1, colors);
        this.drawRow(c, this.second[i], this.tops[i] + half, height - half, colors);
      } else {
        this.drawRow(c, row, this.tops[i], height, colors);
      }
    });
    this.drawMessages(c);
    this.drawCursor(c);
    this.drawAxis(c, ink);
  }

  drawRow(c, row, top, height, colors) {
    const {from, until, left, scale} = this;
    const bins = Math.ceil((until - from) * scale / SHARE_WIDTH) + 1;
    let shares = null;  // per bin and kind, the part that boxes too small to be seen take
    for (let i = row.firstAfter(from); i < row.count && row.start[i] < until; ++i) {
      if (row.end[i] <= from) continue;
      const kind = KINDS.indexOf(OPS[row.op[i]].kind);
      const x = (Math.max(row.start[i], from) - from) * scale;
      const end = (Math.min(row.end[i], until) - from) * scale;
      if ((row.end[i] - row.start[i]) * scale < 3) {
        if (!shares) shares = new Float32Array(KINDS.length * bins);
        for (let bin = Math.floor(x / SHARE_WIDTH); bin * SHARE_WIDTH < end; ++bin)
          shares[bin * KINDS.length + kind] +=
              (Math.min(end, (bin + 1) * SHARE_WIDTH) - Math.max(x, bin * SHARE_WIDTH)) /
              SHARE_WIDTH;
        continue;
      }
      // The halves of a fused pair share the height.
      const pairedBefore = i > 0 && row.end[i - 1] > row.start[i];
      const pairedAfter = i + 1 < row.count && row.start[i + 1] < row.end[i];
      const boxTop = pairedBefore ? top + height / 2 : top;
      const boxHeight = pairedBefore || pairedAfter ? height / 2 : height;
      c.fillStyle = colors[kind];
      c.fillRect(left + x, boxTop, Math.max(end - x - (end - x > 6 ? 0.75 : 0), 0.5), boxHeight);
      if (boxHeight < 10 || kind >= 5) continue;
      const text = String(row.microbatch[i]);
      if (c.measureText(text).width + 4 > end - x) continue;
      c.fillStyle = kind === 1 || kind === 3 ? '#000' : '#fff';
      c.textAlign = 'center';
      c.textBaseline = 'middle';
      c.fillText(text, left + (x + end) / 2, boxTop + boxHeight / 2 + 0.5);
    }
    if (!shares) return;
    for (let bin = 0; bin < bins; ++bin) {
      let y = top + height;
      for (let kind = 0; kind < KINDS.length; ++kind) {
        const share = Math.min(1, shares[bin * KINDS.length + kind]) * height;
        if (share <= 0) continue;
        c.fillStyle = colors[kind];
        c.fillRect(left + bin * SHARE_WIDTH, y - share, SHARE_WIDTH, share);
        y -= share;
      }
    }
  }

  drawMessages(c) {
    if (this.second || this.height < 10) return;
    const visible =
        this.messages.filter(([, , start, end]) => end > this.from && start < this.until);
    if (visible.length > 600) return;
    c.strokeStyle = styleValue('ink');
    c.globalAlpha = 0.45;
    c.lineWidth = 0.8;
    c.save();
    c.beginPath();
    c.rect(this.left, 0, this.surface.width - this.left, this.surface.height);
    c.clip();
    c.beginPath();
    for (const [device, peer, start, end] of visible) {
      if (peer < 0 || end <= start) continue;
      const down = peer > device;
      c.moveTo(
          this.left + (start - this.from) * this.scale,
          this.tops[device] + (down ? this.height : 0));
      c.lineTo(
          this.left + (end - this.from) * this.scale, this.tops[peer] + (down ? 0 : this.height));
    }
    c.stroke();
    c.restore();
    c.globalAlpha = 1;
  }

  drawCursor(c) {
    if (!this.cursor) return;
    const [row, box] = this.cursor;
    const boxes = this.rows[row];
    const x = this.left + Math.max(0, (boxes.start[box] - this.from) * this.scale);
    c.strokeStyle = styleValue('ink');
    c.lineWidth = 2;
    c.strokeRect(
        x, this.tops[row] + 1, Math.max(3, (boxes.end[box] - boxes.start[box]) * this.scale),
        this.height - 2);
  }

  drawAxis(c, ink) {
    const bottom = this.surface.height - 18;
    const most = Math.max(2, Math.floor((this.surface.width - this.left) / 95));
    const step = tickStep(this.until - this.from, most);
    c.fillStyle = ink;
    c.textBaseline = 'top';
    c.textAlign = 'center';
    for (let i = Math.ceil(this.from / step); i * step <= this.until; ++i) {
      const x = this.left + (i * step - this.from) * this.scale;
      c.fillRect(x, bottom, 1, 4);
      const text = i === 0 ? '0' : timeText(i * step);
      const half = c.measureText(text).width / 2;
      c.fillText(
          text, Math.min(Math.max(x, this.left + half), this.surface.width - half), bottom + 6);
    }
  }

  words(row, boxes, i) {
    const op = OPS[boxes.op[i]];
    return `${op.letter}${boxes.stage[i]}.${boxes.microbatch[i]}  ${op.name}\n` +
        `stage ${boxes.stage[i]}, microbatch ${boxes.microbatch[i]}, ${this.names[row]}\n` +
        `${timeText(boxes.start[i])} to ${timeText(boxes.end[i])}: ${
               timeText(boxes.end[i] - boxes.start[i])}`;
  }

  hover(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    const y = event.clientY - bounds.top;
    const row = this.tops ? this.tops.findIndex((top) => y >= top && y < top + this.height) : -1;
    if (row < 0 || x < this.left) return tip.hide();
    const time = this.from + (x - this.left) / this.scale;
    const isSecond = this.second && y >= this.tops[row] + Math.floor(this.height / 2);
    const boxes = isSecond ? this.second[row] : this.rows[row];
    const box = boxes.at(time);
    if (box < 0) {
      return tip.show(
          `${this.names[row]}${
              this.second ? (isSecond ? ', measured' : ', predicted') :
                            ''}\nidle at ${timeText(time)}`,
          event.clientX, event.clientY);
    }
    let text = this.words(row, boxes, box);
    if (this.second) {
      const other = isSecond ? this.rows[row] : this.second[row];
      let like = -1;
      for (let i = 0; i < other.count; ++i) {
        if (other.op[i] === boxes.op[box] && other.stage[i] === boxes.stage[box] &&
            other.microbatch[i] === boxes.microbatch[box]) {
          like = i;
          break;
        }
      }
      if (like >= 0) {
        const [measured, predicted] =
            isSecond ? [[boxes, box], [other, like]] : [[other, like], [boxes, box]];
        const late = measured[0].end[measured[1]] - predicted[0].end[predicted[1]];
        const longer = (measured[0].end[measured[1]] - measured[0].start[measured[1]]) -
            (predicted[0].end[predicted[1]] - predicted[0].start[predicted[1]]);
        text = (isSecond ? 'measured: ' : 'predicted: ') + text +
            `\nmeasured ends ${timeText(Math.abs(late))} ${late < 0 ? 'earlier' : 'later'}, takes ${
                   timeText(Math.abs(longer))} ${longer < 0 ? 'less' : 'more'}`;
      }
    }
    tip.show(text, event.clientX, event.clientY);
  }

  /** Arrows go from work to work, and say which it is. */
  step(rows, boxes) {
    let [row, box] = this.cursor || [0, -1];
    const time = box >= 0 ? this.rows[row].start[box] : this.from;
    if (rows !== 0 && this.cursor) {
      row = Math.min(Math.max(0, row + rows), this.rows.length - 1);
      box = Math.max(0, Math.min(this.rows[row].firstAfter(time), this.rows[row].count - 1));
    } else {
      box = Math.min(Math.max(0, box + boxes), this.rows[row].count - 1);
    }
    if (this.rows[row].count === 0) return;
    this.cursor = [row, box];
    const at = this.rows[row].start[box];
    if (at < this.from || this.rows[row].end[box] > this.until) {
      const span = this.until - this.from;
      this.from = at - span / 4;
      this.until = this.from + span;
      this.clamp();
    }
    this.draw();
    const bounds = this.canvas.getBoundingClientRect();
    tip.show(
        this.words(row, this.rows[row], box),
        bounds.left + this.left + Math.max(0, (at - this.from) * this.scale),
        bounds.top + this.tops[row]);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener('mousemove', (event) => {
      if (this.drag !== undefined) {
        const by = (this.drag - event.clientX) / this.scale;
        this.drag = event.clientX;
        this.from += by;
        this.until += by;
        this.clamp();
        this.draw();
      }
      this.hover(event);
    });
    canvas.addEventListener('mouseleave', () => {
      this.drag = undefined;
      tip.hide();
    });
    canvas.addEventListener('mousedown', (event) => {
      this.drag = event.clientX;
    });
    window.addEventListener('mouseup', () => {
      this.drag = undefined;
    });
    canvas.addEventListener('dblclick', (event) => {
      this.zoom(
          2,
          this.from +
              (event.clientX - canvas.getBoundingClientRect().left - this.left) / this.scale);
    });
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const at = this.from +
          (event.clientX - canvas.getBoundingClientRect().left - this.left) / this.scale;
      this.zoom(Math.exp(-(event.deltaY || event.deltaX) / 300), at);
    }, {passive: false});
    canvas.addEventListener('blur', () => tip.hide());
    canvas.addEventListener('keydown', (event) => {
      const actions = {
        '+': () => this.zoom(1.6),
        '=': () => this.zoom(1.6),
        '-': () => this.zoom(1 / 1.6),
        '0': () => this.all(),
        'Home': () => {
          this.pan(-1e9);
        },
        'End': () => {
          this.pan(1e9);
        },
        'ArrowLeft': () => event.shiftKey ? this.pan(-0.2) : this.step(0, -1),
        'ArrowRight': () => event.shiftKey ? this.pan(0.2) : this.step(0, 1),
        'ArrowUp': () => this.step(-1, 0),
        'ArrowDown': () => this.step(1, 0),
        'Escape': () => {
          this.cursor = null;
          tip.hide();
          this.draw();
        },
      };
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
  }
}
