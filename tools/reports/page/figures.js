// What stands still: waterfall, layers, devices and alternatives as SVG.
'use strict';

/** A drawing as wide as its place, so that its text keeps its size. */
class Fitted {
  /** make(width) gives the drawing. */
  constructor(make) {
    this.make = make;
    this.node = element('div');
  }
  draw() {
    const room = paper.isOn ? 345 : this.node.clientWidth || 640;
    this.node.replaceChildren(this.make(Math.min(Math.max(room, 260), 900)));
  }
}

function waterfall(bars, step, width) {
  const shown = bars.filter((bar) => bar.ns > step * 1e-5);
  const row = 24, left = 104, right = width < 420 ? 62 : 132;
  const height = (shown.length + 1) * row + 6;
  const svg = drawn('svg', {
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    'aria-label': 'From ideal compute to the step: ' +
        shown.map((bar) => `${bar.name} ${timeText(bar.ns)}`).join(', ') +
        `; step ${timeText(step)}`
  });
  const x = (ns) => left + (width - left - right) * ns / step;
  let sum = 0;
  const line = (i, name, what, from, ns, color) => {
    const y = i * row + 3;
    svg.append(drawn('text', {x: left - 8, y: y + 14, 'text-anchor': 'end'}, name));
    svg.append(titled(
        drawn('rect', {
          x: x(from),
          y,
          width: Math.max(1, x(from + ns) - x(from)),
          height: row - 6,
          fill: color,
          rx: 2
        }),
        `${name}: ${what}`));
    svg.append(drawn(
        'text', {x: x(from + ns) + 6, y: y + 14, class: 'muted'},
        right < 100 ? timeText(ns) : `${timeText(ns)} · ${percentText(ns / step)}`));
  };
  shown.forEach((bar, i) => {
    const color = i === 0 ? 'var(--forward)' :
                            {
                              'recompute': 'var(--recompute)',
                              'optimizer': 'var(--update)',
                              'below the peak': 'var(--backward)'
                            }[bar.name] ||
            'var(--bad)';
    line(i, bar.name, bar.what, sum, bar.ns, color);
    sum += bar.ns;
  });
  line(shown.length, 'step', 'all of it', 0, step, 'var(--collective)');
  return svg;
}

function layerStrip(layers, stages, ranks) {
  const width = 1000, height = 66;
  const total =
      layers.reduce((sum, layer) => sum + layer.forward_ns + layer.backward_ns, 0) || layers.length;
  const svg = drawn('svg', {
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    preserveAspectRatio: 'none',
    style: 'height:66px',
    'aria-label':
        `${counted(layers.length, 'layer')} over ${counted(stages.length, 'stage')}, as wide as they take time: ` +
        stages.map((stage, s) => `stage ${s} has ${stage.layers}`).slice(0, 40).join('; ')
  });
  let x = 0, from = 0;
  layers.forEach((layer, i) => {
    const time = layer.forward_ns + layer.backward_ns;
    const wide = width * (total === layers.length ? 1 : time) / total;
    const rank = stages[layer.stage].rank;
    svg.append(titled(
        drawn('rect', {
          x,
          y: 0,
          width: Math.max(0.2, wide - (wide > 4 ? 1 : 0)),
          height: 40,
          fill: rankColor(rank, ranks)
        }),
        `${layer.name}: stage ${layer.stage}; ${
            layer.parameters.toLocaleString('en-US')} parameters; forward ${
            timeText(layer.forward_ns)}, backward ${timeText(layer.backward_ns)}`));
    x += wide;
    if (i + 1 === layers.length || layers[i + 1].stage !== layer.stage) {
      svg.append(drawn(
          'rect',
          {x: from, y: 44, width: Math.max(0.5, x - from - 1.5), height: 4, fill: 'var(--muted)'}));
      from = x;
    }
  });
  return svg;
}

/** The part of the strip below which a stage has no room for its number. */
const LEAST_NUMBERED = 0.028;

function numberedStages(layers, stages) {
  const times = stages.map(() => 0);
  for (const layer of layers) times[layer.stage] += layer.forward_ns + layer.backward_ns;
  const total = times.reduce((sum, time) => sum + time, 0);
  return stages.filter(
      (stage, s) => (total ? times[s] / total : stage.count / layers.length) > LEAST_NUMBERED);
}

/** Stage numbers under the strip, as text that does not stretch. */
function stageMarks(layers, stages) {
  const total = layers.reduce((sum, layer) => sum + layer.forward_ns + layer.backward_ns, 0);
  const marks = [];
  let x = 0;
  stages.forEach((stage, s) => {
    const time = layers.filter((layer) => layer.stage === s)
                     .reduce((sum, layer) => sum + layer.forward_ns + layer.backward_ns, 0);
    const part = total ? time / total : stage.count / layers.length;
    if (part > LEAST_NUMBERED)
      marks.push(element(
          'span', {
            style: `position:absolute;left:${
                (100 * (x + part / 2)).toFixed(2)}%;transform:translateX(-50%);white-space:nowrap`
          },
          String(s)));
    x += part;
  });
  return element(
      'div', {
        class: 'muted',
        'aria-hidden': 'true',
        style: 'position:relative;height:1.2em;font-size:.78rem;margin-top:-16px'
      },
      marks);
}

/** How devices are laid out, and whether each has room for the number of its pipeline rank. */
function topologyGrid(json) {
  const devices = json.ranks.length;
  const inner = json.levels.length ? json.levels[json.levels.length - 1].count : 1;
  const groups = Math.ceil(devices / inner);
  const columns = Math.min(groups, groups > 32 ? 16 : groups > 8 ? 8 : Math.min(groups, 4));
  const across = inner > 16 ? Math.ceil(Math.sqrt(inner)) :
                              Math.min(inner, inner > 4 ? Math.ceil(inner / 2) : inner);
  const down = Math.ceil(inner / across);
  const cell = Math.max(7, Math.min(34, Math.floor((900 / columns - 14) / across)));
  return {devices, inner, groups, columns, across, down, cell, hasNumbers: cell >= 17};
}

function topology(json, ranks) {
  const {devices, inner, groups, columns, across, down, cell, hasNumbers} = topologyGrid(json);
  const groupWidth = across * cell + 12, groupHeight = down * cell + 12;
  const width = columns * groupWidth, height = Math.ceil(groups / columns) * groupHeight;
  const svg = drawn('svg', {
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    style: `max-width:${Math.max(260, width)}px`,
    'aria-label': `${counted(devices, 'device')} in ${counted(groups, 'group')} of ${
        inner}, in the colours of their pipeline ranks`
  });
  for (let g = 0; g < groups; ++g) {
    const gx = g % columns * groupWidth, gy = Math.floor(g / columns) * groupHeight;
    svg.append(drawn('rect', {
      x: gx + 2,
      y: gy + 2,
      width: groupWidth - 4,
      height: groupHeight - 4,
      rx: 5,
      fill: 'none',
      stroke: 'var(--line)'
    }));
    for (let d = 0; d < inner && g * inner + d < devices; ++d) {
      const device = g * inner + d;
      const rank = json.ranks[device];
      const x = gx + 6 + d % across * cell, y = gy + 6 + Math.floor(d / across) * cell;
      svg.append(titled(
          drawn(
              'rect',
              {x, y, width: cell - 1.5, height: cell - 1.5, rx: 2, fill: rankColor(rank, ranks)}),
          rank < 0 ? `device ${device}: not used` : `device ${device}: pipeline rank ${rank}`));
      if (hasNumbers && rank >= 0)
        svg.append(drawn(
            'text', {
              x: x + cell / 2 - 0.7,
              y: y + cell / 2 + 3.5,
              'text-anchor': 'middle',
              style: 'fill:#fff;font-size:11px;pointer-events:none'
            },
            String(rank)));
    }
  }
  return svg;
}

function scatter(points, unit, perSecond, width) {
  const height = Math.round(Math.min(330, width * 0.72)), left = 74, bottom = height - 40,
        right = 14, top = 12;
  const highest = Math.max(...points.map((point) => point.peak_bytes));
  const limit =
      points[0].limit_bytes && points[0].limit_bytes <= 5 * highest ? points[0].limit_bytes : null;
  const mostBytes = Math.max(...points.map((point) => point.peak_bytes), limit || 0);
  const shownBytes = limit ? Math.min(mostBytes, 2.2 * limit) : mostBytes;
  const mostRate = Math.max(...points.map((point) => perSecond(point)));
  const x = (bytes) =>
      left + (width - left - right) * Math.min(bytes, shownBytes) / (shownBytes * 1.03 || 1);
  const y = (rate) => bottom - (bottom - top) * rate / (mostRate * 1.06 || 1);
  const svg = drawn('svg', {
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    'aria-label': `${counted(points.length, 'plan')} by peak memory and ${unit}; ${
        points.filter((point) => point.front).length} of them are on the front`
  });
  const gib = Math.pow(1024, Math.floor(Math.log(Math.max(shownBytes, 1)) / Math.log(1024)));
  const stepBytes = tickStep(shownBytes / gib, Math.max(2, Math.floor(width / 100))) * gib;
  for (let bytes = 0; bytes <= shownBytes; bytes += stepBytes) {
    svg.append(drawn('line', {x1: x(bytes), x2: x(bytes), y1: top, y2: bottom, class: 'axis'}));
    svg.append(drawn(
        'text', {x: x(bytes), y: bottom + 15, 'text-anchor': 'middle', class: 'muted'},
        bytes === 0 ? '0' : bytesText(bytes)));
  }
  const stepRate = tickStep(mostRate, 5);
  for (let rate = 0; rate <= mostRate * 1.05; rate += stepRate) {
    svg.append(
        drawn('line', {x1: left, x2: width - right, y1: y(rate), y2: y(rate), class: 'axis'}));
    svg.append(drawn(
        'text', {x: left - 6, y: y(rate) + 4, 'text-anchor': 'end', class: 'muted'},
        rate === 0 ? '0' : countText(rate)));
  }
  svg.append(drawn(
      'text', {x: (left + width) / 2, y: height - 6, 'text-anchor': 'middle', class: 'muted'},
      'peak memory of the fullest device' +
          (points[0].limit_bytes && !limit ? `; its memory: ${bytesText(points[0].limit_bytes)}` :
                                             '')));
  svg.append(drawn(
      'text', {
        x: 13,
        y: (top + bottom) / 2,
        'text-anchor': 'middle',
        class: 'muted',
        transform: `rotate(-90 13 ${(top + bottom) / 2})`
      },
      unit));
  if (limit) {
    svg.append(drawn('line', {
      x1: x(limit),
      x2: x(limit),
      y1: top,
      y2: bottom,
      stroke: 'var(--bad)',
      'stroke-dasharray': '5 4',
      'stroke-width': 1.5
    }));
    const after = x(limit) > width - 110;
    svg.append(drawn(
        'text', {
          x: x(limit) + (after ? -6 : 6),
          y: bottom - 8,
          'text-anchor': after ? 'end' : 'start',
          style: 'fill:var(--bad)'
        },
        'memory'));
  }
  const front = points.filter((point) => point.front).sort((a, b) => a.peak_bytes - b.peak_bytes);
  svg.append(drawn('path', {
    d: front
           .map(
               (point, i) => `${i ? 'L' : 'M'}${x(point.peak_bytes).toFixed(1)} ${
                   y(perSecond(point)).toFixed(1)}`)
           .join(''),
    fill: 'none',
    stroke: 'var(--good)',
    'stroke-width': 1.5
  }));
  points.slice().reverse().forEach((point) => {
    const isPlan = point === points[0];
    const color = isPlan ? 'var(--accent)' :
        point.front      ? 'var(--good)' :
        point.fits       ? 'var(--muted)' :
                           'none';
    svg.append(titled(
        drawn('circle', {
          cx: x(point.peak_bytes),
          cy: y(perSecond(point)),
          r: isPlan ? 7 : 4.5,
          fill: color,
          stroke: point.fits || isPlan ? 'var(--paper)' : 'var(--muted)',
          'stroke-width': 1.2
        }),
        `${point.changes || 'the plan'}: ${countText(perSecond(point))} ${unit}, step ${
            timeText(point.step_ns)}, ${bytesText(point.peak_bytes)}${
            point.fits ? '' : ', does not fit'}`));
  });
  return svg;
}
