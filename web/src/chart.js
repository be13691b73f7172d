// A figure: heading, chart, what it shows in words, and the table behind it. ECharts draws, as SVG: sharp on paper, and a
// test can see every mark. Charts are drawn anew when the page's width or theme changes, and for paper.
import { BarChart, CustomChart, LineChart } from 'echarts/charts';
import { DataZoomSliderComponent, GridComponent, LegendComponent, TooltipComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';

import { details, element, table } from './dom.js';
import { tick } from './format.js';
import { onThemeChange, themeFor } from './theme.js';

echarts.use([BarChart, CustomChart, LineChart, DataZoomSliderComponent, GridComponent, LegendComponent, TooltipComponent,
             SVGRenderer]);

const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const kLetter = 7.6;         // px, about, of a letter at the charts' 12 px; most are capitals
const kLegendLine = 24;      // px
const kLegendMark = 26;      // px of a legend's mark, and some room
const kEdged = 4;            // px that a box has at least whose edge is drawn
const kPaperWidth = 660;     // px: what A4 and Letter have between their margins
const kFigures = [];         // every chart of the page, to be drawn anew

// The room for a category axis' names, left of it.
export function namesWidth(names, width) {
  return Math.min(Math.max(...names.map((name) => name.length)) * kLetter + 14, width * 0.35);
}

// How high a legend of these names is, and the room above the axes with it.
function legendHeight(names, width) {
  let rows = 1;
  let used = 0;
  for (const name of names) {
    const needed = Math.min(kLegendMark + 10 + name.length * kLetter, width);
    if (used > 0 && used + needed > width) {
      rows += 1;
      used = 0;
    }
    used += needed;
  }
  return rows * kLegendLine + 12;
}

// What all charts have in common.
function frame(theme, names, width) {
  return {
    animation: false,
    textStyle: { fontFamily: kFont, color: theme.text },
    legend: { data: names, top: 0, left: 0, width: width - 8, padding: 0, itemGap: 10, itemWidth: 20, itemHeight: 12,
              textStyle: { color: theme.text, fontSize: 12, width: width - 40, overflow: 'truncate' },
              inactiveColor: theme.line },
    tooltip: { confine: true, backgroundColor: theme.background, borderColor: theme.line,
               textStyle: { color: theme.text, fontSize: 12 } },
  };
}

export function axis(theme, name, more = {}) {
  return {
    name, nameLocation: 'middle', nameTextStyle: { color: theme.muted, fontSize: 12 },
    axisLine: { show: true, lineStyle: { color: theme.muted } },
    axisLabel: { color: theme.text, fontSize: 12, hideOverlap: true, ...(more.type === 'value' ? { formatter: tick } : {}),
                 ...more.label },
    splitLine: { lineStyle: { color: theme.line } },
    ...more, label: undefined,
  };
}

// A series of boxes in the rows of a category axis: data [from, to, row, …], `part` of a row high. `label`: what a box says
// where it has the room, {text: of a function that gives its data, colour, edge: the colour between boxes that touch}.
export function boxes(name, itemStyle, part, data, label) {
  return {
    name, type: 'custom', itemStyle, encode: { x: [0, 1], y: 2 }, data,
    renderItem: (params, api) => {
      const [left, middle] = api.coord([api.value(0), api.value(2)]);
      const [right] = api.coord([api.value(1), api.value(2)]);
      const height = api.size([0, 1])[1] * part;
      const box = { x: left, y: middle - height / 2, width: Math.max(right - left, 0.3), height };
      const { x, y, width, height: high } = params.coordSys;
      const shape = echarts.graphic.clipRectByRect(box, { x, y, width, height: high });
      const rect = shape && { type: 'rect', shape, style: { fill: itemStyle.color } };
      if (!label || !shape || shape.width < kEdged) return rect;
      Object.assign(rect.style, { stroke: label.edge, lineWidth: 1 });
      const text = label.text((at) => api.value(at));
      if (shape.width < text.length * kLetter + 4) return rect;
      return { type: 'group', children: [rect, { type: 'text', silent: true, style: {
        text, x: shape.x + shape.width / 2, y: middle, align: 'center', verticalAlign: 'middle', fill: label.colour,
        font: `11px ${kFont}` } }] };
    },
  };
}

// Lines of a tooltip: [[mark's colour or null, text], …]. An element rather than HTML text: see dom.js.
export function tooltip(title, lines) {
  const mark = (colour) => {
    const made = element('span', { class: 'mark' });
    made.style.background = colour;
    return made;
  };
  return element('div', { class: 'tip' }, element('strong', {}, title),
      ...lines.map(([colour, text]) => element('div', {}, colour ? mark(colour) : null, text)));
}

// figure: {
//   id, title, caption   the caption says what is to be seen and in which unit
//   names                of the legend
//   edges                'sharp': boxes that touch show no seam between them
//   height(width)        px of the plot, without the legend
//   option(theme, width) ECharts' option without what frame() gives; its grid begins at legendHeight()
//   columns, rows()      of the table
// }
export function addFigure(parent, figure) {
  const box = element('div', { class: figure.edges === 'sharp' ? 'chart sharp' : 'chart', role: 'img',
                               'aria-label': `${figure.title}. ${figure.caption}` });
  parent.append(element('figure', { id: figure.id },
      element('h3', {}, figure.title), box, element('figcaption', {}, figure.caption),
      details('Table', () => table(figure.columns, figure.rows()))));
  const drawn = { box, figure, chart: null };
  kFigures.push(drawn);
  draw(drawn);
}

// Draws a figure anew, of what its functions say now.
export function redraw(id) {
  for (const drawn of kFigures) {
    if (drawn.figure.id === id) draw(drawn);
  }
}

// Lets go of the figures within an element, which is about to be emptied.
export function forgetFigures(parent) {
  for (let i = kFigures.length - 1; i >= 0; i -= 1) {
    if (!parent.contains(kFigures[i].box)) continue;
    kFigures[i].chart?.dispose();
    kFigures.splice(i, 1);
  }
}

// What a chart could show and a run directory has not.
export function addNothing(parent, id, title, why) {
  parent.append(element('figure', { id, class: 'nothing' }, element('h3', {}, title), element('p', {}, why)));
}

function draw(drawn, paper = false) {
  const theme = themeFor(paper);
  const width = paper ? kPaperWidth : Math.max(drawn.box.clientWidth, 240);
  const top = legendHeight(drawn.figure.names, width);
  const height = top + drawn.figure.height(width);
  drawn.width = width;
  drawn.box.style.height = `${height}px`;
  if (drawn.chart === null) drawn.chart = echarts.init(drawn.box, null, { renderer: 'svg', width, height });
  drawn.chart.resize({ width, height });
  const { tooltip: tip, ...option } = drawn.figure.option(theme, width);
  const common = frame(theme, drawn.figure.names, width);
  // For tests: what the marks of the data look like, and how far below the box's edge the plot begins, in px; above it is the legend.
  drawn.box.dataset.colours = JSON.stringify(option.series.map((of) => of.itemStyle.color));
  drawn.box.dataset.plot = top;
  drawn.chart.setOption(
      { ...common, ...option, tooltip: { ...common.tooltip, ...tip }, grid: { top, ...option.grid } }, { notMerge: true });
}

function drawAll(paper = false) {
  for (const drawn of kFigures) draw(drawn, paper);
}

let paperOut = false;
new ResizeObserver(() => {
  if (paperOut) return;
  for (const drawn of kFigures) {
    if (drawn.box.clientWidth > 0 && drawn.box.clientWidth !== drawn.width) draw(drawn);
  }
}).observe(document.documentElement);
onThemeChange(() => drawAll());
window.addEventListener('beforeprint', () => {
  paperOut = true;
  drawAll(true);
});
window.addEventListener('afterprint', () => {
  paperOut = false;
  drawAll();
});
