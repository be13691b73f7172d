// What only a traced run (run.trace) can show: how far each worker led the slowest along the run, and every phase of its
// newest steps, as tools/page_trace.cc has put them into the page.
import { addFigure, axis, boxes, namesWidth, tooltip } from '../chart.js';
import { fixed, seconds } from '../format.js';
import { bandColour, phaseStyle } from '../theme.js';

const kBandsMax = 6;
const kStepsShown = 8;  // of the timeline, until the reader chooses

// The heat map's colours: [{name, from, to}], a band for each gap while there are few.
function bandsOf(largest) {
  const width = Math.ceil((largest + 1) / kBandsMax);
  return Array.from({ length: Math.ceil((largest + 1) / width) }, (_, i) => {
    const [from, to] = [i * width, (i + 1) * width - 1];
    return { from, to, name: width === 1 ? `${from} ahead` : `${from}–${to} ahead` };
  });
}

const rows = (workers, theme, left, width) => axis(theme, '', {
  type: 'category', inverse: true, data: workers, label: { width: left(width) - 12, overflow: 'truncate' } });

// run.trace: {from, stretch, workers, gaps: [[gap of each worker, or null], …] of one stretch after another}, in seconds.
export function gaps(parent, run, index) {
  const { from, stretch, workers, gaps: all } = run.trace;
  const cells = all.flatMap((column, i) => column.flatMap((gap, row) => (
    gap === null ? [] : [{ begin: from + i * stretch, end: from + (i + 1) * stretch, row, gap }])));
  const bands = bandsOf(Math.max(0, ...cells.map(({ gap }) => gap)));
  const left = (width) => namesWidth(workers, width);
  const drawn = bands.map(({ from: least, to }) => cells.filter(({ gap }) => gap >= least && gap <= to));
  addFigure(parent, {
    id: `gaps-${index}`, title: 'Clock gap of each worker against time', names: bands.map(({ name }) => name),
    caption: `How many iterations each worker (node.thread) was ahead of the slowest, at the end of each ${seconds(stretch)} s. ` +
        'Empty: it took no part.',
    height: () => workers.length * 18 + 56,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 48 },
      xAxis: axis(theme, 'seconds since the first grant', { type: 'value', nameGap: 28, scale: true,
                                                            splitNumber: width < 500 ? 3 : 6 }),
      yAxis: rows(workers, theme, left, width),
      tooltip: {
        trigger: 'item',
        formatter: ({ color, value }) => tooltip(workers[value[2]], [
          [color, `${value[3]} ahead of the slowest`], [null, `until ${seconds(value[1])} s`]]),
      },
      series: bands.map(({ name }, i) => boxes(name, { color: bandColour(i, bands.length) }, 1,
          drawn[i].map(({ begin, end, row, gap }) => [begin, end, row, gap]))),
    }),
    columns: ['until s', ...workers],
    rows: () => all.map((column, i) => [
      seconds(from + (i + 1) * stretch), ...column.map((gap) => (gap === null ? '–' : String(gap)))]),
  });
}

function timeline(parent, page, run, index) {
  const { workers, spans, spans_from: from } = run.trace;
  const flat = spans.flatMap((own, row) => own.map(([phase, begin, length, clock]) => (
    { phase, begin: from + begin * 1e-6, end: from + (begin + length) * 1e-6, row, clock })));
  if (flat.length === 0) return;
  const used = page.phases.map((name, phase) => ({ name, phase })).filter(({ phase }) => flat.some((s) => s.phase === phase));
  const last = Math.max(...flat.map(({ clock }) => clock));
  const shown = flat.filter(({ clock }) => clock > last - kStepsShown);
  const left = (width) => namesWidth(workers, width);
  addFigure(parent, {
    id: `timeline-${index}`, title: 'Timeline of the newest steps', names: used.map(({ name }) => name),
    caption: 'Every phase of each worker (node.thread). The bar below chooses the stretch; trace.json has the whole run, for ' +
        'Perfetto.',
    height: () => workers.length * 22 + 92,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 84 },
      xAxis: axis(theme, 'seconds since the first grant', { type: 'value', nameGap: 28, scale: true,
                                                            splitNumber: width < 500 ? 3 : 6 }),
      yAxis: rows(workers, theme, left, width),
      dataZoom: [{ type: 'slider', filterMode: 'weakFilter', bottom: 8, height: 22, left: left(width), right: 18,
                   startValue: Math.min(...shown.map(({ begin }) => begin)), endValue: Math.max(...shown.map(({ end }) => end)),
                   showDetail: false, brushSelect: false, textStyle: { color: theme.text }, borderColor: theme.line }],
      tooltip: {
        trigger: 'item',
        formatter: ({ color, seriesName, value }) => tooltip(`${workers[value[2]]}, clock ${value[3]}`, [
          [color, `${seriesName} ${fixed((value[1] - value[0]) * 1e3, 3)} ms`], [null, `from ${seconds(value[0])} s`]]),
      },
      series: used.map(({ name, phase }) => boxes(name, phaseStyle(name, theme), 0.7,
          flat.filter((span) => span.phase === phase).map(({ begin, end, row, clock }) => [begin, end, row, clock]))),
    }),
    columns: ['worker', 'clock', 'phase', 'from s', 'ms'],
    rows: () => flat.map(({ phase, begin, end, row, clock }) => [
      workers[row], String(clock), page.phases[phase], fixed(begin, 6), fixed((end - begin) * 1e3, 3)]),
  });
}

export function traced(parent, page, run, index) {
  if (!run.trace?.gaps) return;
  gaps(parent, run, index);
  timeline(parent, page, run, index);
}
