// The timeline: every phase of some steps of each worker, as common/page/page_spans.cc has put them into the page.
import { addFigure, addNothing, axis, boxes, namesWidth, tooltip } from '../chart.js';
import { fixed, seconds } from '../format.js';
import { phaseStyle } from '../theme.js';
import { workerRows } from './gaps.js';

export const kTimelineTitle = 'Timeline of steps';
const kStepsShown = 8;  // until the reader chooses

const clocksText = ([first, last]) => (first === last ? `clock ${first}` : `clocks ${first} to ${last}`);

// What of the run it shows; `asked`, with --clocks, says what there was to show.
function headline(asked) {
  return asked ? `Timeline of ${clocksText(asked.clocks)}` : 'Timeline of the newest steps';
}

function caption(asked, shown, origin) {
  const all = 'Every phase of each worker (node.thread). The bar below chooses the stretch; ';
  if (origin) return `${all}paceline trace makes a trace.json of the parts that are there, for Perfetto.`;
  if (!asked) return `${all}trace.json has the whole run, for Perfetto, and paceline report --html --clocks A..B draws any other.`;
  const fits = asked.phases > shown
    ? `this page has room for the first ${fixed(shown, 0)} of their ${fixed(asked.phases, 0)} phases: ask for fewer clocks to see others.`
    : `trace.json has the whole run, for Perfetto.`;
  return all + fits;
}

// of: {workers, spans, spans_from, asked, origin}, the last where there is no first grant that seconds count from
export function timeline(parent, phases, of, index) {
  const { workers, spans, spans_from: from, asked, origin } = of;
  const id = `timeline-${index}`;
  const flat = spans.flatMap((own, row) => own.map(([phase, begin, length, clock]) => (
    { phase, begin: from + begin * 1e-6, end: from + (begin + length) * 1e-6, row, clock })));
  if (flat.length === 0) {
    const has = asked?.traced ? `it has ${clocksText(asked.traced)}` : 'it has no phases';
    return addNothing(parent, id, headline(asked),
        `The trace has nothing of ${asked ? clocksText(asked.clocks) : 'any step'}: ${has}.`);
  }
  const used = phases.map((name, phase) => ({ name, phase })).filter(({ phase }) => flat.some((s) => s.phase === phase));
  const clocks = flat.map(({ clock }) => clock).reduce(([least, most], clock) => (
    [Math.min(least, clock), Math.max(most, clock)]), [Infinity, -Infinity]);
  const [least, most] = asked ? [clocks[0], clocks[0] + kStepsShown - 1] : [clocks[1] - kStepsShown + 1, clocks[1]];
  const first = flat.filter(({ clock }) => clock >= least && clock <= most);
  const left = (width) => namesWidth(workers, width);
  addFigure(parent, {
    id, title: headline(asked), names: used.map(({ name }) => name), caption: caption(asked, flat.length, origin),
    height: () => workers.length * 22 + 92,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 84 },
      xAxis: axis(theme, `seconds since ${origin ?? 'the first grant'}`, { type: 'value', nameGap: 28, scale: true,
                                                            splitNumber: width < 500 ? 3 : 6,
                                                            // What the bar chose is no round number.
                                                            label: { showMinLabel: false, showMaxLabel: false } }),
      yAxis: workerRows(workers, theme, left, width),
      dataZoom: [{ type: 'slider', filterMode: 'weakFilter', bottom: 8, height: 22, left: left(width), right: 18,
                   startValue: Math.min(...first.map(({ begin }) => begin)), endValue: Math.max(...first.map(({ end }) => end)),
                   showDetail: false, brushSelect: false, textStyle: { color: theme.text }, borderColor: theme.line }],
      tooltip: {
        trigger: 'item',
        formatter: ({ color, seriesName, value }) => tooltip(`${workers[value[2]]}, clock ${value[3]}`, [
          [color, `${seriesName} ${fixed((value[1] - value[0]) * 1e3, 3)} ms`], [null, `from ${seconds(value[0])} s`]]),
      },
      series: used.map(({ name, phase }) => boxes(name, { color: phaseStyle(name, theme).color }, 0.7,  // bare, as its boxes are
          flat.filter((span) => span.phase === phase).map(({ begin, end, row, clock }) => [begin, end, row, clock]))),
    }),
    columns: ['worker', 'clock', 'phase', 'from s', 'ms'],
    rows: () => flat.map(({ phase, begin, end, row, clock }) => [
      workers[row], String(clock), phases[phase], fixed(begin, 6), fixed((end - begin) * 1e3, 3)]),
  });
}
