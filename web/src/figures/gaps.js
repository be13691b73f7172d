// The heat map: how far each worker led the slowest, against time. It draws what it is given; where that comes from is the
// callers' business (sources.js, ../live.js).
import { addFigure, axis, boxes, namesWidth, tooltip } from '../chart.js';
import { seconds } from '../format.js';
import { bandColour } from '../theme.js';

export const kGapsTitle = 'Clock gap of each worker against time';
const kBandsMax = 6;

// The colours: [{name, from, to}]. Who is the slowest has a band alone, and so has each gap while there are few.
function bandsOf(largest) {
  const width = Math.ceil(largest / (kBandsMax - 1));
  const slowest = { from: 0, to: 0, name: '0: the slowest' };
  if (largest === 0) return [slowest];
  return [slowest, ...Array.from({ length: Math.ceil(largest / width) }, (_, i) => {
    const [from, to] = [i * width + 1, (i + 1) * width];
    return { from, to, name: width === 1 ? `${from} ahead` : `${from}–${to} ahead` };
  })];
}

// The axis of a chart that has a row for each worker.
export const workerRows = (workers, theme, left, width) => axis(theme, '', {
  type: 'category', inverse: true, data: workers, label: { width: left(width) - 12, overflow: 'truncate' } });

// of: {from, stretch, workers, gaps: [[gap of each worker, or null], …] of one stretch after another}, in seconds.
export function gaps(parent, of, index) {
  const { from, stretch, workers, gaps: all } = of;
  const cells = all.flatMap((column, i) => column.flatMap((gap, row) => (
    gap === null ? [] : [{ begin: from + i * stretch, end: from + (i + 1) * stretch, row, gap }])));
  const bands = bandsOf(Math.max(0, ...cells.map(({ gap }) => gap)));
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
