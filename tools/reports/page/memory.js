// Memory of one device over the step, by what it holds, on a canvas.
'use strict';

class MemoryChart {
  constructor() {
    this.surface = new Surface({role: 'img'});
    this.surface.canvas.addEventListener('mousemove', (event) => this.hover(event));
    this.surface.canvas.addEventListener('mouseleave', () => tip.hide());
  }
  get canvas() {
    return this.surface.canvas;
  }

  show(memory, limit, length, name) {
    this.memory = memory;
    this.limit = limit;
    this.length = length;
    this.name = name;
    const peak = memory.peak;
    this.canvas.setAttribute(
        'aria-label',
        `Memory of ${name} over the step: peak ${bytesText(peak.bytes)}` +
            (limit ? ` of ${bytesText(limit)}` : '') + ` at ${timeText(peak.time)}: ` +
            CATEGORIES
                .map((category, i) => peak.use[i] ? `${category} ${bytesText(peak.use[i])}` : null)
                .filter(Boolean)
                .join(', '));
    this.draw();
  }

  draw() {
    if (!this.memory) return;
    const surface = this.surface;
    surface.prepare(paper.isOn ? 190 : 240);
    const c = surface.context;
    const top = 14, bottom = surface.height - 22, left = 58;
    // A limit far above everything would flatten it.
    const isNear = this.limit && this.limit <= 5 * this.memory.peak.bytes;
    const most =
        Math.max(this.memory.peak.bytes, isNear ? this.limit : 0) * (isNear ? 1.06 : 1.2) || 1;
    const x = (time) => left + (surface.width - left - 4) * time / this.length;
    const y = (bytes) => bottom - (bottom - top) * bytes / most;
    this.left = left;
    const ink = styleValue('muted');
    const samples = this.memory.samples;
    // The highest within each pixel: what is too fine to be seen must not hide a peak.
    const columns = [];
    for (let i = 0, px = left; px < surface.width - 4; ++px) {
      const until = (px + 1 - left) / (surface.width - left - 4) * this.length;
      let best = samples[i];
      while (i + 1 < samples.length && samples[i + 1].time < until) {
        ++i;
        if (samples[i].bytes > best.bytes) best = samples[i];
      }
      columns.push([px, best]);
    }
    for (const [px, sample] of columns) {
      let bytes = 0;
      sample.use.forEach((part, category) => {
        if (part <= 0) return;
        c.fillStyle = CATEGORY_COLORS[category];
        c.fillRect(px, y(bytes + part), 1.02, y(bytes) - y(bytes + part));
        bytes += part;
      });
    }
    const unit = Math.pow(1024, Math.floor(Math.log(Math.max(most, 1)) / Math.log(1024)));
    const step = tickStep(most / unit, 5) * unit;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    for (let bytes = 0; bytes <= most; bytes += step) {
      c.fillStyle = ink;
      c.fillText(bytes === 0 ? '0' : bytesText(bytes), left - 6, y(bytes));
      c.globalAlpha = 0.25;
      c.fillRect(left, y(bytes), surface.width - left - 4, 1);
      c.globalAlpha = 1;
    }
    c.textBaseline = 'top';
    c.textAlign = 'center';
    const ticks = tickStep(this.length, Math.max(2, Math.floor((surface.width - left) / 95)));
    for (let time = 0; time <= this.length; time += ticks) {
      const text = time === 0 ? '0' : timeText(time);
      const half = c.measureText(text).width / 2;
      c.fillStyle = ink;
      c.fillText(text, Math.min(Math.max(x(time), left + half), surface.width - half), bottom + 6);
    }
    if (!this.limit) return;
    if (!isNear) {
      c.fillStyle = ink;
      c.textAlign = 'left';
      c.textBaseline = 'top';
      return c.fillText(`device memory: ${bytesText(this.limit)}, far above`, left + 6, 2);
    }
    c.fillStyle = styleValue('bad');
    for (let px = left; px < surface.width - 4; px += 9) c.fillRect(px, y(this.limit) - 1, 5, 2);
    c.textAlign = 'left';
    c.textBaseline = 'bottom';
    c.fillText(`device memory: ${bytesText(this.limit)}`, left + 6, y(this.limit) - 2);
  }

  hover(event) {
    if (!this.memory) return;
    const bounds = this.canvas.getBoundingClientRect();
    const part = (event.clientX - bounds.left - this.left) / (bounds.width - this.left - 4);
    if (part < 0 || part > 1) return tip.hide();
    const time = part * this.length;
    let sample = this.memory.samples[0];
    for (const later of this.memory.samples) {
      if (later.time > time) break;
      sample = later;
    }
    tip.show(
        `${this.name} at ${timeText(time)}: ${bytesText(sample.bytes)}\n` +
            CATEGORIES
                .map(
                    (category, i) =>
                        sample.use[i] ? `${category} ${bytesText(sample.use[i])}` : null)
                .filter(Boolean)
                .join('\n'),
        event.clientX, event.clientY);
  }
}
