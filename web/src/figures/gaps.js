// The heat map: how far each worker led the slowest, against time. It draws what it is given; where that comes from is the
// callers' business (sources.js, ../live.js).
import { addFigure, axis, boxes, namesWidth, tooltip } from '../chart.js';
import { seconds } from '../format.js';
import { bandColour } from '../theme.js';

export const kGapsTitle = 'Clock gap of each worker against time';
const kBandsMax = 6;

// The colours: [{name, from, to}]. Who is the slowest has a band alone, and so has each gap while there are few; of more the bands
// grow with the gap, so that a policy that keeps workers together is told from one that does not, and both show what they do.
function bandsOf(largest) {
  const bands = [{ from: 0, to: 0, name: '0: the slowest' }];
  for (let i = 1; i < kBandsMax; i += 1) {
    const from = bands[bands.length - 1].to + 1;
    if (from > largest) break;
    const to = largest < kBandsMax ? from : Math.max(from, Math.round(largest ** (i / (kBandsMax - 1))));
    bands.push({ from, to, name: from === to ? `${from} ahead` : `${from}–${to} ahead` });
  }
  return bands;
}

// The axis of a chart that has a row for each worker.
export const workerRows = (workers, theme, left, width) => axis(theme, '', {
  type: 'category', inverse: true, data: workers, label: { width: left(width) - 12, overflow: 'truncate' } });

// of: {from, stretch, workers, gaps: [[gap of each worker, or null], …] of one stretch after another}, in seconds.
// largest: of all runs whose maps are to be compared.
export function gaps(parent, of, index, largest = 0) {
  const { from, stretch, workers, gaps: all } = of;
  const cells = all.flatMap((column, i) => column.flatMap((gap, row) => (
    gap === null ? [] : [{ begin: from + i * stretch, end: from + (i + 1) * stretch, row, gap }])));
  const bands = bandsOf(cells.reduce((most, { gap }) => Math.max(most, gap), largest));
  const left = (width) => namesWidth(workers, width);
  const drawn = bands.map(({ from: least, to }) => cells.filter(({ gap }) => gap >= least && gap <= to));
  addFigure(parent, {
    id: `gaps-${index}`, title: kGapsTitle, names: bands.map(({ name }) => name), edges: 'sharp',
    caption: `How many iterations each worker (node.thread) was ahead of the slowest, at the end of each ${seconds(stretch)} s. ` +
        'Empty: it took no part.',
    height: () => workers.length * 18 + 56,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 48 },
      xAxis: axis(theme, 'seconds since the first grant', { type: 'value', nameGap: 28, scale: true,
                                                            splitNumber: width < 500 ? 3 : 6 }),
      yAxis: workerRows(workers, theme, left, width),
      tooltip: {
        trigger: 'item',
        formatter: ({ color, value }) => tooltip(workers[value[2]], [
          [color, `${value[3]} ahead of the slowest`], [null, `until ${seconds(value[1])} s`]]),
      },
      series: bands.map(({ name }, i) => boxes(name, { color: bandColour(i, bands.length, theme) }, 1,
          drawn[i].map(({ begin, end, row, gap }) => [begin, end, row, gap]))),
    }),
    columns: ['until s', ...workers],
    rows: () => all.map((column, i) => [
      seconds(from + (i + 1) * stretch), ...column.map((gap) => (gap === null ? '–' : String(gap)))]),
  });
}
