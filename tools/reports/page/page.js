// Puts the page together, and answers its sliders.
'use strict';

const report = JSON.parse(document.getElementById('report').textContent);

// --- What if -------------------------------------------------------------------------------------

/** Programs and costs, inflated when they are first needed. */
class WhatIf {
  constructor(json, rows) {
    this.json = json;
    this.rows = rows;
    this.axisLengths = json.axes.map((axis) => axis.percent.length);
    this.programs = new Map();
    this.costs = new Map();
    const own = json.programs[0];
    /** As the plan is. Positions: of axes in their lists; the rest are values. */
    this.now = {
      microbatches: own.microbatches,
      recompute: own.recompute,
      axes: json.axes.map((axis) => axis.at),
      slow: {device: 0, percent: 0},
    };
  }

  entry({microbatches, recompute}) {
    return this.json.programs.find(
        (one) => one.microbatches === microbatches && one.recompute === recompute);
  }

  program(entry) {
    if (!this.programs.has(entry)) this.programs.set(entry, readProgram(entry.program));
    return this.programs.get(entry);
  }

  cost(place) {
    if (!this.costs.has(place))
      this.costs.set(place, readCosts(this.json.costs[place], this.axisLengths));
    return this.costs.get(place);
  }

  /** The program and its times at a setting; nothing where the plan has no such program. */
  async simulate(setting) {
    const entry = this.entry(setting);
    if (!entry) return null;
    const [program, costs] = await Promise.all([this.program(entry), this.cost(entry.costs)]);
    const times = runClock(program, pricesOf(program, costs.at(setting.axes), setting.slow));
    return {program, times, step: times.step};
  }

  /** What `stagecraft simulate` is told for the same. */
  changes(setting) {
    const changes = [];
    if (setting.microbatches !== this.now.microbatches)
      changes.push(`batch=${setting.microbatches * this.json.samples}`);
    const set = this.json.recompute[setting.recompute].set;
    if (set) changes.push(set);
    this.json.axes.forEach((axis, i) => {
      if (setting.axes[i] !== axis.at)
        changes.push(`${axis.key}=${axis.percent[setting.axes[i]]}%`);
    });
    if (setting.slow.percent > 0)
      changes.push(`device${this.rows[setting.slow.device].device}.slow=${setting.slow.percent}%`);
    return changes;
  }
}

const whatIf = new WhatIf(report.what_if, report.plan.rows);
// For whoever checks the page: step(setting) is in nanoseconds, changes(setting) says the setting.
window.stagecraft = {
  whatIf,
  step: async (setting) => {
    const run = await whatIf.simulate(setting);
    return run && run.step;
  },
};

/** What is drawn again when the page's size or colours change. */
const redrawn = [];

function fitted(make) {
  const drawing = new Fitted(make);
  redrawn.push(drawing);
  return drawing.node;
}

// --- Small parts ---------------------------------------------------------------------------------

function section(title, attributes, ...children) {
  const id = 's' + title.toLowerCase().replace(/[^a-z]+/g, '-');
  return element(
      'section', {'aria-labelledby': id, ...attributes}, element('h2', {id}, title), children);
}

function card(name, value, ...remarks) {
  return element(
      'div', {class: 'card'}, element('dt', {}, name),
      element(
          'dd', {}, value, remarks.filter(Boolean).map((remark) => element('small', {}, remark))));
}

/** A path as a shell takes it as one word. */
function shellWord(text) {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : '\'' + text.replace(/'/g, '\'\\\'\'') + '\'';
}

async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element('textarea', {style: 'position:fixed;opacity:0'});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  const word = button.textContent;
  button.textContent = 'copied';
  setTimeout(() => {
    button.textContent = word;
  }, 1500);
}

function copyButton(text, what) {
  return element(
      'button', {
        type: 'button',
        'aria-label': `copy ${what}`,
        onclick: (event) => copied(typeof text === 'function' ? text() : text, event.currentTarget)
      },
      'copy');
}

function deviceName(row) {
  return row.members === String(row.device) ? `device ${row.device}` : `devices ${row.members}`;
}
function shortRowName(row) {
  const members = row.members.length > 15 ? row.members.split(' ')[0] + ' …' : row.members;
  return 'device' + (/[- ]/.test(members) ? 's ' : ' ') + members;
}

// --- Headline ------------------------------------------------------------------------------------

/** Of a rate: the interval in which eight of ten cases lie, as far as it says anything. */
function intervalWords(figures, rate) {
  const {p10_ns: quick, p90_ns: late} = figures.interval;
  if (late > 3 * quick)
    return `no interval: ${figures.provenance} costs leave a factor of ${
        significant(late / quick, 2)}`;
  let most = rate * figures.step_ns / quick;
  if (figures.mfu > 0) most = Math.min(most, rate / figures.mfu);  // the devices' peak
  return `eight of ten cases: ${countText(rate * figures.step_ns / late)} to ${countText(most)}`;
}

function headline(plan) {
  const figures = plan.figures;
  const devices = figures.devices;
  const hasTokens = figures.tokens_per_second > 0;
  const rate = (hasTokens ? figures.tokens_per_second : figures.samples_per_second) / devices;
  const unit = hasTokens ? 'tokens/s' : 'samples/s';
  const cards = [
    card('step', timeText(figures.step_ns), `bubble ${percentText(figures.bubble)}`),
    card(`${unit} per ${figures.device_word}`, countText(rate), intervalWords(figures, rate)),
    card(`${unit} in all`, countText(rate * devices), counted(devices, 'device')),
  ];
  if (figures.mfu !== undefined) {
    const tflops = figures.mfu * figures.peak_flops / devices / 1e12;
    cards.push(card(
        `TFLOP/s per ${figures.device_word}`, countText(tflops),
        `of ${countText(figures.peak_flops / devices / 1e12)}, dense ${plan.precision}`));
    cards.push(card('MFU', percentText(figures.mfu), 'attention counted in full (PaLM)'));
    if (figures.mfu_causal < figures.mfu)
      cards.push(card(
          'MFU, causal', percentText(figures.mfu_causal), 'half of attention (FlashAttention-2)'));
    if (figures.hfu > figures.mfu)
      cards.push(card('HFU', percentText(figures.hfu), 'with what is recomputed'));
  }
  if (report.serving) {
    const {points} = report.serving;
    const most = points[points.length - 1];
    cards.push(card(
        'first token', timeText(points[0].first_token_ns), 'of a prompt that meets no other'));
    cards.push(card(
        'requests/s', countText(most.requests_per_second),
        `${counted(most.requests, 'request')} at once`));
  }
  const memory = element('dd', {id: 'peak-memory'}, '…');
  cards.push(element('div', {class: 'card'}, element('dt', {}, 'peak memory'), memory));
  if (!figures.fits) cards.push(card('memory', element('span', {class: 'bad'}, 'does not fit')));
  const name = plan.model_name && plan.model_name !== plan.model ? plan.model_name : plan.model;
  document.getElementById('head').append(
      element('p', {class: 'muted', style: 'margin:0'}, 'Stagecraft report'),
      element('h1', {}, `${name} on ${plan.cluster}`),
      element('p', {class: 'words'}, plan.sentence),
      element(
          'p', {class: 'muted'},
          `${counted(plan.stages.length, 'stage')}, ${counted(plan.samples, 'sample')} a step. ${plan.parameters.toLocaleString('en-US')} parameters, ${
              plan.precision}${
              plan.sequence ? `, ${counted(plan.sequence, 'token')} a sample` :
                              ''}. Predicted from ${plan.costs}.`),
      element('dl', {class: 'cards'}, cards));
}

/** Of the fullest device of what is shown. */
function fullest(run, rows) {
  let most = null;
  rows.forEach((row, device) => {
    const {peak} = memoryOf(run.program, run.times, device);
    const part = row.limit_bytes ? peak.bytes / row.limit_bytes : peak.bytes / 2 ** 60;
    if (!most || part > most.part) most = {part, peak, row, device};
  });
  return most;
}

// --- Sliders, timeline, memory -------------------------------------------------------------------

function slider(name, positions, at, words, changed) {
  const output = element('output', {}, words(positions[at]));
  const input = element('input', {
    type: 'range',
    min: 0,
    max: positions.length - 1,
    step: 1,
    value: at,
    'aria-label': name,
    'aria-valuetext': words(positions[at])
  });
  input.addEventListener('input', () => {
    const position = positions[Number(input.value)];
    output.textContent = words(position);
    input.setAttribute('aria-valuetext', words(position));
    changed(position, Number(input.value));
  });
  const label = element('label', {}, output, name, input);
  label.reset = () => {
    input.value = at;
    output.textContent = words(positions[at]);
    input.setAttribute('aria-valuetext', words(positions[at]));
  };
  return label;
}

function choice(name, options, changed) {
  const select = element(
      'select', {'aria-label': name},
      options.map((option, i) => element('option', {value: i}, option)));
  select.addEventListener('change', () => changed(Number(select.value)));
  const label = element('label', {}, name, select);
  label.reset = () => {
    select.value = 0;
  };
  return label;
}

class Workbench {
  constructor(plan, measured) {
    this.plan = plan;
    this.measured = measured;
    this.setting = structuredClone(whatIf.now);
    this.device = 0;
    this.timeline = new Timeline(
        'Timeline of the step, a row for each device. Arrows go from work to work, plus and minus zoom.',
        plan.rows.map(shortRowName));
    this.memory = new MemoryChart();
    this.answer =
        element('div', {class: 'answer', role: 'status', 'aria-live': 'polite'}, 'simulating …');
    this.command = element('code', {});
  }

  controls() {
    const {json} = whatIf;
    const inputs = [];
    const at = (list, value) => list.indexOf(value);
    if (json.microbatches.length > 1) {
      inputs.push(slider(
          'microbatches', json.microbatches, at(json.microbatches, whatIf.now.microbatches),
          (count) => `${count} × ${json.samples}`, (count) => this.set({microbatches: count})));
    }
    json.axes.forEach((axis, i) => {
      if (!axis.matters) return;
      inputs.push(slider(
          `${axis.name} (${axis.rate})`, axis.percent, axis.at, (percent) => `${percent} %`,
          (_, place) => {
            const axes = this.setting.axes.slice();
            axes[i] = place;
            this.set({axes});
          }));
    });
    inputs.push(slider(
        'a slow device takes longer by', Array.from({length: 21}, (_, i) => 5 * i), 0,
        (percent) => `${percent} %`,
        (percent) => this.set({slow: {device: this.setting.slow.device, percent}})));
    inputs.push(choice(
        'which device is slow', this.plan.rows.map(deviceName),
        (device) => this.set({slow: {device, percent: this.setting.slow.percent}})));
    if (json.recompute.length > 1) {
      inputs.push(choice(
          'recompute', json.recompute.map((way, i) => way.name + (i === 0 ? ' (the plan)' : '')),
          (recompute) => this.set({recompute})));
    }
    const reset = element(
        'button', {
          type: 'button',
          onclick: () => {
            inputs.forEach((input) => input.reset());
            this.set(structuredClone(whatIf.now));
          }
        },
        'as planned');
    return [
      element('div', {class: 'sliders screen'}, inputs),
      element('div', {class: 'bar screen'}, reset)
    ];
  }

  set(change) {
    Object.assign(this.setting, change);
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.update();
    });
  }

  async update() {
    const asked = structuredClone(this.setting);
    const round = this.round = (this.round || 0) + 1;
    let run = null;
    let reason = 'the schedule does not take this number of microbatches with this recomputation';
    try {
      run = await whatIf.simulate(asked);
    } catch (error) {
      reason = error.message;
    }
    if (round !== this.round) return;
    const changes = whatIf.changes(asked);
    this.command.textContent = [
      'stagecraft', 'simulate', shellWord(this.plan.path),
      ...changes.flatMap((change) => ['--set', change])
    ].join(' ');
    if (!run) {
      this.answer.replaceChildren(element('span', {class: 'bad'}, `Not possible: ${reason}.`));
      return;
    }
    this.show(run, asked, changes.length > 0);
  }

  show(run, setting, isChanged) {
    const {plan} = this;
    if (!this.planned) this.planned = run;
    const before = this.planned.step;
    const samples = setting.microbatches * whatIf.json.samples;
    const rate = samples / (run.step / 1e9) * (plan.sequence || 1) / plan.figures.devices;
    const rateBefore = whatIf.now.microbatches * whatIf.json.samples / (before / 1e9) *
        (plan.sequence || 1) / plan.figures.devices;
    const unit = `${plan.sequence ? 'tokens/s' : 'samples/s'} per ${plan.figures.device_word}`;
    const busy = busyTimes(run.program, run.times);
    const bubble = 1 - busy.reduce((sum, time) => sum + time, 0) / busy.length / run.step;
    const most = fullest(run, plan.rows);
    const difference = (now, then, better) => !isChanged ?
        null :
        element(
            'span',
            {class: now === then         ? 'muted' :
                 (now < then) === better ? 'good' :
                                           'bad'},
            ` ${differenceText(now, then)}`);
    const fits = !most.row.limit_bytes || most.peak.bytes <= most.row.limit_bytes;
    this.answer.replaceChildren(
        element(
            'span', {}, 'step ',
            element('b', {title: `${run.step.toLocaleString('en-US')} ns`}, timeText(run.step)),
            difference(run.step, before, true) || ''),
        element(
            'span', {}, element('b', {}, countText(rate)), ` ${unit}`,
            difference(rate, rateBefore, false) || ''),
        element('span', {}, `bubble ${percentText(bubble)}`),
        element(
            'span', {class: fits ? '' : 'bad'},
            `peak ${bytesText(most.peak.bytes)}${
                most.row.limit_bytes ?
                    ` of ${bytesText(most.row.limit_bytes)}` :
                    ''} on ${deviceName(most.row)}${fits ? '' : ': does not fit'}`));
    if (this.planned === run) {
      const node = document.getElementById('peak-memory');
      node.replaceChildren(
          bytesText(most.peak.bytes),
          element(
              'small', {},
              most.row.limit_bytes ?
                  `${percentText(most.peak.bytes / most.row.limit_bytes, 0)} of ${
                      bytesText(most.row.limit_bytes)}, ${deviceName(most.row)}` :
                  `on ${deviceName(most.row)}; no limit`));
      this.device = most.device;
      this.picker.value = most.device;
    }
    this.run = run;
    const measuredNow = this.measuredRows && !isChanged ? this.measuredRows : null;
    this.timeline.show(
        boxesOf(run.program, run.times), messagesOf(run.program, run.times), measuredNow);
    const kinds = new Set(run.program.op.map((op) => KINDS.indexOf(OPS[op].kind)));
    const shown = KINDS.map((_, i) => i).filter((i) => kinds.has(i));
    this.legend.replaceChildren(
        legend(shown.map((i) => KIND_NAMES[i]), shown.map((i) => `var(--${KINDS[i]})`)));
    this.showMemory();
    const rows = plan.rows.map((row, device) => {
      const {peak} = memoryOf(run.program, run.times, device);
      return {
        cells: [
          deviceName(row), timeText(busy[device]), percentText(1 - busy[device] / run.step),
          bytesText(peak.bytes), row.limit_bytes ? bytesText(row.limit_bytes) : 'unlimited'
        ]
      };
    });
    this.table.replaceChildren(tableOf(
        ['device', '>computes', '>idle', '>peak', '>memory'], rows,
        'each device\'s time and memory'));
  }

  showMemory() {
    const row = this.plan.rows[this.device];
    this.memory.show(
        memoryOf(this.run.program, this.run.times, this.device), row.limit_bytes, this.run.step,
        deviceName(row));
  }

  redraw() {
    this.timeline.draw();
    this.memory.draw();
  }

  sections() {
    this.legend = element('div');
    this.table = element('div');
    this.picker = element(
        'select', {
          'aria-label': 'device whose memory is shown',
          onchange: () => {
            this.device = Number(this.picker.value);
            this.showMemory();
          }
        },
        this.plan.rows.map((row, i) => element('option', {value: i}, deviceName(row))));
    const zoom = (text, what, action) =>
        element('button', {type: 'button', 'aria-label': what, title: what, onclick: action}, text);
    return [
      section(
          'What if', {},
          element(
              'p', {class: 'muted screen'},
              'Every position is simulated here, to the nanosecond, as the command below it does.'),
          this.controls(), this.answer,
          element(
              'div', {class: 'command screen'}, this.command,
              copyButton(() => this.command.textContent, 'the command'))),
      section(
          'Timeline', {},
          element(
              'div', {class: 'bar screen'}, zoom('+', 'zoom in', () => this.timeline.zoom(1.6)),
              zoom('−', 'zoom out', () => this.timeline.zoom(1 / 1.6)),
              zoom('←', 'earlier', () => this.timeline.pan(-0.3)),
              zoom('→', 'later', () => this.timeline.pan(0.3)),
              zoom('all', 'the whole step', () => this.timeline.all()),
              element(
                  'span', {class: 'muted'},
                  this.measured ? 'each row: predicted above, measured below' :
                                  'drag to move, ctrl + wheel to zoom; digits are microbatches')),
          element('div', {}, this.timeline.canvas), this.legend),
      section(
          'Memory over time', {}, element('div', {class: 'bar screen'}, this.picker),
          element('div', {}, this.memory.canvas), legend(CATEGORIES, CATEGORY_COLORS),
          element('details', {class: 'screen'}, element('summary', {}, 'all devices'), this.table)),
    ];
  }
}

// --- The rest ------------------------------------------------------------------------------------

function ranksOf(plan) {
  return 1 + Math.max(...plan.stages.map((stage) => stage.rank));
}

function stagesTable(plan) {
  return tableOf(
      ['>stage', 'layers', 'devices', '>forward', '>backward', '>send', 'recompute', '>idle'],
      plan.stages.map((stage, s) => ({
                        cells: [
                          String(s), `${stage.layers} (${stage.count})`, stage.devices,
                          timeText(stage.forward_ns), timeText(stage.backward_ns),
                          stage.send_ns ? timeText(stage.send_ns) : '–', stage.recompute,
                          percentText(stage.idle)
                        ]
                      })),
      'the plan\'s stages');
}

/** Colours and numbers of pipeline ranks; of more than can be told apart none. */
function rankLegend(ranks) {
  const most = 16;
  if (ranks < 2 || ranks > most) return null;
  const numbers = [...Array(ranks).keys()];
  return legend(
      numbers.map((rank) => `rank ${rank}`), numbers.map((rank) => rankColor(rank, ranks)));
}

function layersSection(plan) {
  const ranks = ranksOf(plan);
  const numbered = numberedStages(plan.layers, plan.stages).length;
  const numbers = numbered === plan.stages.length ? ' and a number' :
      numbered ? ', and a number where there is room,' : '';
  return section(
      'Layers and stages', {}, layerStrip(plan.layers, plan.stages, ranks),
      stageMarks(plan.layers, plan.stages),
      element(
          'p', {class: 'muted'},
          `Each layer as wide as it takes time; a colour for each pipeline rank, a line${
              numbers} for each stage.`),
      rankLegend(ranks),
      element(
          'details', {class: 'screen'}, element('summary', {}, counted(plan.stages.length, 'stage')),
          stagesTable(plan)));
}

function topologySection(plan) {
  const ranks = ranksOf(plan);
  const {hasNumbers} = topologyGrid(plan.topology);
  const levels =
      plan.topology.levels.map((level) => `${level.count} at ${level.rate}, ${level.latency}`)
          .join('; ');
  return section(
      'Stages on the cluster', {}, topology(plan.topology, ranks),
      element(
          'p', {class: 'muted'},
          `${plan.topology.ranks.length.toLocaleString('en-US')} × ${plan.topology.kind}${
              levels ? '; from the outermost level: ' + levels :
                       ''}. ${
              hasNumbers ? 'Numbers are pipeline ranks.' :
                           'A colour for each pipeline rank.'}`),
      hasNumbers ? null : rankLegend(ranks));
}

function alternativesSection(points, plan) {
  const perSecond = (point) =>
      point.samples_per_second * (plan.sequence || 1) / plan.figures.devices;
  const unit = `${plan.sequence ? 'tokens/s' : 'samples/s'} per ${plan.figures.device_word}`;
  const order = points.map((point, i) => [point, i])
                    .sort(([a], [b]) => b.fits - a.fits || perSecond(b) - perSecond(a));
  return section(
      'Alternatives', {}, fitted((width) => scatter(points, unit, perSecond, width)),
      legend(
          ['the plan', 'on the front', 'fits', 'does not fit'],
          [
            'var(--accent)', 'var(--good)', 'var(--muted)',
            'transparent;border:1px solid var(--muted)'
          ]),
      element(
          'details', {class: 'screen'}, element('summary', {}, counted(points.length, 'plan')),
          tableOf(
              ['change', `>${unit}`, '>step', '>difference', '>peak memory', 'fits', 'front'],
              order.map(
                  ([point, i]) => ({
                    chosen: i === 0,
                    cells: [
                      i === 0 ? 'the plan' : point.changes, countText(perSecond(point)),
                      timeText(point.step_ns), differenceText(point.step_ns, points[0].step_ns),
                      bytesText(point.peak_bytes), point.fits ? 'yes' : 'no',
                      point.front ? 'yes' : ''
                    ]
                  })),
              'alternatives')));
}

/** What a plan for inference serves: as `stagecraft simulate` says it. */
function servingSection(serving) {
  const memory = serving.memory;
  const fits = (serving.choices || []).filter((choice) => choice.fits);
  return section(
      'Requests', {class: 'wide'},
      tableOf(
          ['>requests at once', '>first token', '>each further token', '>tokens/s', '>requests/s'],
          serving.points.map(
              (point) => ({
                cells: [
                  countText(point.requests), timeText(point.first_token_ns),
                  timeText(point.next_token_ns), countText(point.tokens_per_second),
                  countText(point.requests_per_second)
                ]
              })),
          'requests at once, and how fast they are served'),
      element(
          'p', {class: 'muted'},
          `Prompts of ${serving.prompt_tokens.toLocaleString('en-US')} tokens, each of which generates ${
              serving.output_tokens.toLocaleString('en-US')}; memory has room for ${
              counted(serving.room, 'request')}.`),
      memory ? element(
                   'p', {class: 'muted'},
                   `Device ${memory.full_first}, full first, has ${
                       bytesText(memory.weights_bytes)} of weights, ${
                       bytesText(memory.pass_bytes)} for a pass and ${
                       bytesText(memory.request_bytes)} for each request; ${
                       Math.round(1000 * serving.memory_part) / 10} % of its memory is used.`) :
               null,
      fits.length > 1 ?
          tableOf(
              ['degrees', '>first token', '>each further token', '>requests that fit',
               '>each further token then', '>tokens/s then'],
              fits.map((choice) => {
                const alone = choice.points[0], full = choice.points[choice.points.length - 1];
                return {
                  cells: [
                    `TP${choice.tp} PP${choice.pp} DP${choice.dp}`, timeText(alone.first_token_ns),
                    timeText(alone.next_token_ns), countText(full.requests),
                    timeText(full.next_token_ns), countText(full.tokens_per_second)
                  ]
                };
              }),
              'ways to serve on these devices, with one request and with all that fit') :
          null);
}

function adviceSection({tried, edits}) {
  if (!edits.length) {
    return section(
        'Advice', {class: 'wide'},
        element(
            'p', {},
            `${counted(tried, 'change')} of this plan and pairs of changes were simulated; none makes the step shorter.`));
  }
  return section(
      'Advice', {class: 'wide'},
      tableOf(
          ['edit', '>step', '>difference', '>memory'],
          edits.map((row) => ({
                       cells: [
                         row.edit, timeText(row.step_ns),
                         differenceText(row.step_ns, report.plan.figures.step_ns),
                         row.limit_bytes ?
                             `${bytesText(row.peak_bytes)} of ${bytesText(row.limit_bytes)}` :
                             bytesText(row.peak_bytes)
                       ]
                     })),
          'edits that shorten the step'));
}

function measuredSection(measured) {
  const sign = (ns) => (ns < 0 ? '−' : '+') + timeText(Math.abs(ns));
  const verdict = measured.busy ?
      `on a busy machine, which says nothing of the prediction: ${measured.busy}` :
      `the prediction is off by ${(100 * measured.error).toFixed(1)} %`;
  const shares = measured.shares.filter((share) => share.extra_ns !== 0);
  return section(
      'Predicted and measured', {class: 'wide'},
      element(
          'p', {},
          `Predicted ${timeText(measured.predicted_ns)}, measured ${
              timeText(measured.measured_ns)}: ${verdict}.`,
          measured.other_version ? ' The run is of another version of this plan.' : ''),
      shares.length ?
          [
            element('h3', {}, `Where the difference went, on device ${measured.device}`),
            tableOf(
                ['what', '>longer by'],
                shares.map((share) => ({cells: [share.what, sign(share.extra_ns)]})),
                'parts of the difference')
          ] :
          null,
      element(
          'details', {class: 'screen'}, element('summary', {}, 'by stage and kind of work'),
          tableOf(
              ['what', '>count', '>predicted', '>measured', '>difference'],
              measured.kinds.map(
                  (kind) => ({
                    cells: [
                      kind.what, String(kind.count), timeText(kind.predicted_ns),
                      timeText(kind.measured_ns),
                      kind.predicted_ns ? differenceText(kind.measured_ns, kind.predicted_ns) : '–'
                    ]
                  })),
              'kinds of work')));
}

function againstSection(plan, other) {
  const rate = (one) => one.figures.samples_per_second * (one.sequence || 1) / one.figures.devices;
  const peak = (figures) => figures.mfu === undefined ? '–' : percentText(figures.mfu);
  const rows = [
    ['plan', plan.path, other.path],
    ['what', plan.sentence, other.sentence],
    ['step', timeText(plan.figures.step_ns), timeText(other.figures.step_ns)],
    [
      `${plan.sequence ? 'tokens/s' : 'samples/s'} per ${plan.figures.device_word}`, countText(rate(plan)),
      `${countText(rate(other))} (${differenceText(rate(other), rate(plan))})`
    ],
    ['bubble', percentText(plan.figures.bubble), percentText(other.figures.bubble)],
    ['MFU', peak(plan.figures), peak(other.figures)],
    ['fits', plan.figures.fits ? 'yes' : 'no', other.figures.fits ? 'yes' : 'no'],
  ];
  report.waterfall.forEach((bar) => {
    const like = other.waterfall.find((one) => one.name === bar.name);
    if (like) rows.push([bar.name, timeText(bar.ns), timeText(like.ns)]);
  });
  const timeline = new Timeline(`Timeline of ${other.path}`, other.rows.map(shortRowName), 110);
  readTimeline(other.timeline).then((boxes) => {
    timeline.show(boxes);
    redrawn.push(timeline);
  });
  return [
    section(
        'Against the other plan', {class: 'wide'},
        tableOf(
            ['', 'this plan', 'the other'], rows.map((cells) => ({cells})),
            'both plans side by side')),
    element(
        'div', {class: 'other-timeline'}, element('h3', {}, `Timeline of ${other.path}`),
        element('div', {}, timeline.canvas))
  ];
}

function launchSection(launch) {
  const runnable = launch.filter((one) => one.files);
  const refused = launch.filter((one) => one.refused);
  return section(
      'Launch', {class: 'screen'},
      runnable.map(
          (one, i) => element(
              'details', i === 0 ? {open: true} : {},
              element('summary', {}, `${one.name}: ${one.summary}`),
              one.files.map(
                  (file) =>
                      [element(
                           'div', {class: 'file'},
                           element('span', {class: 'muted'}, file.name || one.name),
                           copyButton(file.text, `what ${one.name} takes`)),
                       element('pre', {tabindex: '0'}, file.text)]))),
      refused.length ?
          element(
              'details', {},
              element('summary', {}, `not for ${refused.map((one) => one.name).join(', ')}`),
              tableOf(
                  ['system', 'why'], refused.map((one) => ({cells: [one.name, one.refused]})),
                  'systems that cannot run the plan')) :
          null);
}

function provenance(plan, measured, other) {
  const rows = [
    ['plan', plan.path, plan.hash], ['model', plan.model, plan.profile || 'built in'],
    ['cluster', plan.cluster, plan.cluster_hash]
  ];
  if (measured) rows.push(['run', measured.path, measured.hash]);
  if (other) rows.push(['other plan', other.path, other.hash]);
  return section(
      'Where this comes from', {},
      tableOf(
          ['input', 'name', 'hash (XXH3-128)'],
          rows.map((cells) => ({cells: [cells[0], cells[1], element('code', {}, cells[2])]})),
          'inputs and their hashes'),
      element(
          'p', {class: 'muted'},
          `Costs: ${plan.costs}${plan.source ? ` (${plan.source})` : ''}. stagecraft ${
              report.version}.`),
      plan.notes.length ?
          element('ul', {class: 'muted'}, plan.notes.map((note) => element('li', {}, note))) :
          null);
}

/** On paper two sheets hold everything: what is higher than its sheet is drawn smaller. */
function fillSheets(isOn) {
  const [first, second] = document.querySelectorAll('.sheet');
  const sheets = [[document.getElementById('head'), first], [second, document.getElementById('foot')]];
  for (const parts of sheets) {
    parts.forEach((part) => { part.style.zoom = ''; });
    if (!isOn) continue;
    let zoom = 1;
    // Smaller text also has more room beside it; so it is measured again.
    for (let round = 0; round < 8; ++round) {
      const height = parts.reduce((sum, part) => sum + part.getBoundingClientRect().height, 0);
      if (height <= paper.sheet) break;
      zoom *= Math.min(0.99, paper.sheet / height);
      parts.forEach((part) => { part.style.zoom = zoom; });
    }
  }
}

function build() {
  const {plan, measured, against} = report;
  const main = document.getElementById('main');
  const bench = new Workbench(plan, measured);
  main.append(element('div', {class: 'sheet'}, bench.sections()));
  const columns = element(
      'div', {class: 'columns'}, measured ? measuredSection(measured) : null,
      section(
          'From ideal compute to the step', {},
          fitted((width) => waterfall(report.waterfall, plan.figures.step_ns, width)),
          element('p', {class: 'muted'}, 'Means over the devices; they add up to the step.')),
      alternativesSection(report.alternatives, plan), layersSection(plan), topologySection(plan),
      report.serving ? servingSection(report.serving) : null, adviceSection(report.advice),
      against ? againstSection(plan, against) : null);
  main.append(element('div', {class: 'sheet'}, columns, launchSection(report.launch)));
  document.getElementById('foot').append(provenance(plan, measured, against));
  redrawn.push(bench);
  const ready = measured ? readTimeline(measured.timeline).then((rows) => {
    bench.measuredRows = rows;
  }) :
                           Promise.resolve();
  const simulated = ready.then(() => bench.update());
  const redraw = () => redrawn.forEach((one) => (one.redraw ? one.redraw() : one.draw()));
  let waiting = 0;
  window.addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 80);
  });
  const print = (isOn) => {
    paper.isOn = isOn;
    document.documentElement.classList.toggle('paper', isOn);
    redraw();
    fillSheets(isOn);
  };
  window.addEventListener('beforeprint', () => print(true));
  window.addEventListener('afterprint', () => print(false));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  redrawn.filter((one) => one instanceof Fitted).forEach((one) => one.draw());
  return simulated;
}

// The headline is seen before the rest is put together.
headline(report.plan);
window.stagecraft.ready = new Promise((resolve, reject) => {
  setTimeout(() => build().then(resolve, reject), 0);
});
