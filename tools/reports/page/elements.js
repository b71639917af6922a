// What the page is made of: words for numbers, elements, tables, colours, the tip, and canvases.
'use strict';

// --- Words ---------------------------------------------------------------------------------------

function significant(number, digits = 4) {
  return String(Number(number.toPrecision(digits)));
}

/** "27.01 s" */
function timeText(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return significant(ns / 1e9) + ' s';
  if (size >= 1e6) return significant(ns / 1e6) + ' ms';
  if (size >= 1e3) return significant(ns / 1e3) + ' µs';
  return significant(ns) + ' ns';
}

/** "77.2 GiB" */
function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return significant(bytes) + ' ' + units[unit];
}

/** "78,380"; below a hundred with decimals. */
function countText(number) {
  if (Math.abs(number) >= 100) return Math.round(number).toLocaleString('en-US');
  return significant(number);
}

function percentText(part, digits = 1) {
  return (100 * part).toFixed(digits) + ' %';
}
function differenceText(now, before) {
  const part = before === 0 ? 0 : now / before - 1;
  return (part >= 0 ? '+' : '−') + Math.abs(100 * part).toFixed(1) + ' %';
}

// --- Elements ------------------------------------------------------------------------------------

/** An element; text becomes text, never markup. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on'))
      node.addEventListener(name.slice(2), value);
    else if (value === true)
      node.setAttribute(name, '');
    else if (value !== false && value !== null)
      node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null));
  return node;
}

function drawn(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat(Infinity));
  return node;
}

function titled(node, text) {
  node.append(drawn('title', {}, text));
  return node;
}

/** headings: "name" or ">name" for numbers. */
function tableOf(headings, rows, caption) {
  const numeric = headings.map((heading) => heading.startsWith('>'));
  const kind = (i) => (numeric[i] ? {class: 'number'} : {});
  return element(
      'div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption},
      element(
          'table', {}, element('caption', {class: 'hidden-text'}, caption),
          element(
              'thead', {},
              element(
                  'tr', {},
                  headings.map(
                      (heading, i) =>
                          element('th', {scope: 'col', ...kind(i)}, heading.replace(/^>/, ''))))),
          element(
              'tbody', {},
              rows.map(
                  (row) => element(
                      'tr', row.chosen ? {class: 'chosen'} : {},
                      row.cells.map((cell, i) => element('td', kind(i), cell)))))));
}

function styleValue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

const KINDS = [
  'forward', 'backward', 'backward_input', 'backward_weight', 'recompute', 'update', 'collective'
];
const KIND_NAMES = [
  'forward', 'backward', 'input gradient', 'weight gradient', 'recompute', 'update',
  'sums over replicas'
];
const CATEGORY_COLORS =
    ['#0072b2', '#56b4e9', '#cc79a7', '#f0e442', '#e69f00', '#009e73', '#d55e00', '#8a8f99'];
/** One for each pipeline rank; told apart in lightness, too. */
function rankColor(rank, ranks) {
  if (rank < 0) return styleValue('idle');
  const hue = (205 + rank * 137.5) % 360;
  return `hsl(${hue.toFixed(0)} 55% ${ranks > 1 && rank % 2 ? 62 : 48}%)`;
}

function legend(names, colors) {
  return element(
      'ul', {class: 'legend'},
      names.map(
          (name, i) => element('li', {}, element('i', {style: `background:${colors[i]}`}), name)));
}

// --- The tip -------------------------------------------------------------------------------------

const tip = {
  show(text, x, y) {
    const node = document.getElementById('tip');
    node.textContent = text;
    node.hidden = false;
    const box = node.getBoundingClientRect();
    node.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 6)) + 'px';
    node.style.top =
        Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + 'px';
  },
  hide() {
    document.getElementById('tip').hidden = true;
  },
};

/** A step of 1, 2 or 5 times a power of ten with at most so many of them in the length. */
function tickStep(length, most) {
  let power = Math.pow(10, Math.floor(Math.log10(length / most)));
  if (!(power > 0) || !isFinite(power)) power = 1;
  for (const digit of [1, 2, 5, 10])
    if (length / (digit * power) <= most) return digit * power;
  return 10 * power;
}

/** "1 stage", "12 stages". */
function counted(count, word) {
  return `${count.toLocaleString('en-US')} ${word}${count === 1 ? '' : 's'}`;
}

/** On paper drawings are as wide as the sheet, and low enough for all of them. */
const paper = {
  isOn: false,
  width: 700,
  height: 270,
  sheet: 1020  // pixels of A4 between its margins, with room for what browsers round
};

/** A canvas in device pixels; its width follows the page's. */
class Surface {
  constructor(attributes) {
    this.canvas = element('canvas', attributes);
    this.context = this.canvas.getContext('2d');
  }
  prepare(height) {
    const ratio = paper.isOn ? 2 : Math.min(window.devicePixelRatio || 1, 2);
    const room = paper.isOn       ? paper.width :
        this.canvas.parentElement ? this.canvas.parentElement.clientWidth :
                                    800;
    this.width = Math.max(room, 200);
    this.height = height;
    this.canvas.style.height = height + 'px';
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.fillStyle = styleValue('paper');
    this.context.fillRect(0, 0, this.width, height);
    this.context.font = '11px system-ui, sans-serif';
  }
}
