// The clock: when each work of a compiled program starts and ends. The same arithmetic as in
// simulator/engines/compiled.hpp, in whole nanoseconds, which doubles hold exactly below 2^53.
'use strict';

const OPS = [
  {letter: 'F', name: 'forward', kind: 'forward'},
  {letter: 'B', name: 'backward', kind: 'backward'},
  {letter: 'I', name: 'input gradient', kind: 'backward_input'},
  {letter: 'W', name: 'weight gradient', kind: 'backward_weight'},
  {letter: 'R', name: 'recompute', kind: 'recompute'},
  {letter: 'SF', name: 'send activations', kind: 'send'},
  {letter: 'RF', name: 'receive activations', kind: 'receive'},
  {letter: 'SB', name: 'send gradients', kind: 'send'},
  {letter: 'RB', name: 'receive gradients', kind: 'receive'},
  {letter: 'EV', name: 'evict activations', kind: 'send'},
  {letter: 'TI', name: 'take in activations', kind: 'receive'},
  {letter: 'GB', name: 'give activations back', kind: 'send'},
  {letter: 'LD', name: 'load activations', kind: 'receive'},
  {letter: 'SN', name: 'send the norm', kind: 'send'},
  {letter: 'RN', name: 'receive the norm', kind: 'receive'},
  {letter: 'SV', name: 'send the validation', kind: 'send'},
  {letter: 'RV', name: 'receive the validation', kind: 'receive'},
  {letter: 'G', name: 'sum gradients', kind: 'collective'},
  {letter: 'GS', name: 'scatter gradients', kind: 'collective'},
  {letter: 'T', name: 'sum tied weights', kind: 'collective'},
  {letter: 'N', name: 'sum the norm', kind: 'collective'},
  {letter: 'P', name: 'gather parameters', kind: 'collective'},
  {letter: 'U', name: 'update', kind: 'update'},
];
const COMPUTES = new Set(['forward', 'backward', 'backward_input', 'backward_weight', 'recompute']);
const CATEGORIES = [
  'parameters', 'gradients', 'optimizer', 'weight versions', 'activations', 'transfer', 'workspace',
  'reserve'
];

/** A program as page_program.cpp packs it. */
async function readProgram(text) {
  const table = await PackedTable.read(text);
  const [devices, works, nodes, prices, patterns] = [0, 0, 0, 0, 0].map(() => table.next());
  const program = {devices, works, nodes, prices: [], patterns: [], counts: [], resident: []};
  for (let i = 0; i < prices; ++i) {
    const fused = table.next() === 1;
    const device = table.next() - 1;
    const entries = [table.next() - 1];
    if (fused) entries.push(table.next() - 1, table.next() - 1);
    program.prices.push({device, entries});
  }
  const back = () => {
    const values = table.column(nodes);
    for (let i = 0; i < nodes; ++i) values[i] = values[i] === 0 ? 0 : i + 1 - values[i];
    return values;
  };
  program.first = back();
  program.second = back();
  program.nodeDelay = table.column(nodes);
  program.nodeCost = table.column(nodes);
  for (let d = 0; d < devices; ++d) program.counts.push(table.next());
  program.op = table.column(works, Uint8Array);
  program.stage = table.column(works);
  program.microbatch = table.differences(works);
  program.value = table.differences(works);
  program.delay = table.column(works);
  program.cost = table.column(works);
  program.latency = table.column(works);
  program.taken = table.column(works);
  program.givenBack = table.column(works);
  program.peer = table.column(works);
  for (let i = 0; i < patterns; ++i) {
    const pattern = [];
    for (let left = table.next(); left > 0; --left) pattern.push([table.next(), table.next()]);
    program.patterns.push(pattern);
  }
  for (let d = 0; d < devices; ++d) program.resident.push(CATEGORIES.map(() => table.next()));
  return program;
}

/**
 * Costs over a grid of settings (page_costs.cpp): for each entry, along which axes it changes, and
 * its value for each combination of their positions.
 */
async function readCosts(text, axes) {
  const table = await PackedTable.read(text);
  const entries = [];
  for (let left = table.next(); left > 0; --left) {
    const along = table.next();
    let size = 1;
    axes.forEach((length, axis) => {
      if (along >> axis & 1) size *= length;
    });
    const values = new Float64Array(size);
    for (let i = 0; i < size; ++i) values[i] = table.next() - 1;
    entries.push({along, values});
  }
  return {
    axes,
    /** The list of costs where the axes stand at these positions. */
    at(positions) {
      return entries.map(({along, values}) => {
        let place = 0;
        axes.forEach((length, axis) => {
          if (along >> axis & 1) place = place * length + positions[axis];
        });
        return values[place];
      });
    },
  };
}

/** time × (1 + percent / 100), rounded half up: as the event engine slows a device. */
function slowed(time, percent) {
  if (percent === 0) return time;
  const millionths = 1000000n + BigInt(percent) * 10000n;
  return Number((BigInt(time) * millionths + 500000n) / 1000000n);
}

/** The prices of a program; `slow` is a device of it and by how many per cent it takes longer. */
function pricesOf(program, costs, slow = {
  device: -1,
  percent: 0
}) {
  return Float64Array.from(program.prices, ({device, entries}) => {
    const percent = device >= 0 && device === slow.device ? slow.percent : 0;
    if (entries.length === 1) return entries[0] < 0 ? 0 : slowed(costs[entries[0]], percent);
    const [together, forward, backward] = entries.map((entry) => costs[entry]);
    if (together >= 0) return slowed(together, percent);
    return slowed(forward, percent) + slowed(backward, percent);
  });
}

/** Start and end of every work, and the step. Throws where a time passes 2^53 ns (104 days). */
function runClock(program, prices) {
  const {first, second, nodeDelay, nodeCost, nodes, works} = program;
  const values = new Float64Array(nodes + 1);
  for (let i = 0; i < nodes; ++i) {
    values[i + 1] =
        Math.max(values[first[i]], values[second[i]] + prices[nodeDelay[i]]) + prices[nodeCost[i]];
  }
  const start = new Float64Array(works);
  const end = new Float64Array(works);
  let step = 0;
  for (let w = 0; w < works; ++w) {
    end[w] = values[program.value[w]] + prices[program.delay[w]];
    start[w] = end[w] - prices[program.cost[w]] - prices[program.latency[w]];
    if (end[w] > step) step = end[w];
  }
  if (!Number.isSafeInteger(step)) throw new Error('the step takes longer than 104 days');
  return {start, end, step};
}

/** Per device: the places of its works in the program's lists, [first, end). */
function worksOfDevices(program) {
  let first = 0;
  return program.counts.map((count) => [first, first += count]);
}

/** Time in which each device computes; overlapping halves of a pair count once. */
function busyTimes(program, times) {
  return worksOfDevices(program).map(([first, end]) => {
    let busy = 0;
    let until = 0;
    for (let w = first; w < end; ++w) {
      if (!COMPUTES.has(OPS[program.op[w]].kind)) continue;
      busy += Math.max(0, times.end[w] - Math.max(until, times.start[w]));
      until = Math.max(until, times.end[w]);
    }
    return busy;
  });
}

/**
 * Memory of one device: the instants at which it changes, and after each the bytes of each
 * category. What ends and what begins at the same instant cancel out.
 */
function memoryOf(program, times, device) {
  const [first, end] = worksOfDevices(program)[device];
  const events = [];
  for (let w = first; w < end; ++w) {
    if (program.taken[w] !== 0) events.push([times.start[w], program.taken[w], 1]);
    if (program.givenBack[w] !== 0) events.push([times.end[w], program.givenBack[w], -1]);
  }
  events.sort((a, b) => a[0] - b[0]);
  const use = program.resident[device].slice();
  const samples = [];
  let peak = {bytes: 0, time: 0, use: use.slice()};
  const note = (time) => {
    const bytes = use.reduce((sum, part) => sum + part, 0);
    if (bytes > peak.bytes) peak = {bytes, time, use: use.slice()};
    samples.push({time, bytes, use: use.slice()});
  };
  let next = 0;
  for (let now = 0;; now = events[next][0]) {
    for (; next < events.length && events[next][0] === now; ++next) {
      for (const [category, bytes] of program.patterns[events[next][1]])
        use[category] += events[next][2] * bytes;
    }
    note(now);
    if (next === events.length) return {samples, peak};
  }
}
