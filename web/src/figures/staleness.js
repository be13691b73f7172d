// How old the parameters were with which each applied gradient was computed: staleness.csv, summed over the workers.
import { addFigure, addNothing, axis, tooltip } from '../chart.js';
import { fixed, percent } from '../format.js';
import { runStyle } from '../theme.js';

const kBarsMax = 40;

const total = (counts) => counts.reduce((sum, [, count]) => sum + count, 0);

// [{label, from, to}]: single numbers while there are few, else ranges of one width.
function ranges(largest) {
  const width = Math.ceil((largest + 1) / kBarsMax);
  return Array.from({ length: Math.ceil((largest + 1) / width) }, (_, i) => {
    const from = i * width;
    const to = from + width - 1;
    return { from, to, label: width === 1 ? String(from) : `${from}–${to}` };
  });
}

function within(counts, { from, to }) {
  return total(counts.filter(([value]) => value >= from && value <= to));
}

function staleness(parent, page, unit, what) {
  const id = `staleness-${unit}`;
  const title = `Staleness in ${unit}`;
  const runs = page.runs.map((run, index) => ({ run, index }))
      .filter(({ run }) => (run.staleness?.[unit]?.length ?? 0) > 0);
  if (runs.length === 0) return addNothing(parent, id, title, 'No run has recorded it: there is no staleness.csv with rows.');
  const countsOf = ({ run }) => run.staleness[unit];
  const bins = ranges(Math.max(...runs.flatMap((of) => countsOf(of).map(([value]) => value))));
  const share = (of, bin) => within(countsOf(of), bin) / total(countsOf(of));
  addFigure(parent, {
    id, title, caption: what, names: runs.map(({ run }) => run.label),
    height: (width) => (width < 500 ? 250 : 300),
    option: (theme) => ({
      grid: { left: 58, right: 18, bottom: 48 },
      xAxis: axis(theme, unit, { type: 'category', data: bins.map((bin) => bin.label), nameGap: 28 }),
      yAxis: axis(theme, 'share of the gradients, %', { type: 'value', nameGap: 42 }),
      tooltip: {
        trigger: 'axis', axisPointer: { type: 'shadow' },
        formatter: (points) => tooltip(`${bins[points[0].dataIndex].label} ${unit}`, points.map((point) => [
          point.color, `${point.seriesName} ${fixed(point.value, 2)} %`])),
      },
      series: runs.map((of) => {
        const { color, decal } = runStyle(of.index, theme);
        return { name: of.run.label, type: 'bar', itemStyle: { color, decal }, emphasis: { disabled: true },
                 data: bins.map((bin) => 100 * share(of, bin)) };
      }),
    }),
    columns: ['run', `staleness, ${unit}`, 'how many gradients', 'share %'],
    rows: () => runs.flatMap((of) => countsOf(of).map(([value, count]) => (
      [of.run.label, String(value), String(count), percent(count / total(countsOf(of)))]))),
  });
}

export function stalenessFigures(parent, page) {
  staleness(parent, page, 'clocks',
      'How many clocks of some worker the parameters lacked at most with which an applied gradient was computed.');
  staleness(parent, page, 'gradients', 'How many gradients were applied between the parameters that a gradient was computed ' +
      'with and the ones it was applied to. Above 64 they are counted in ranges 3 % wide.');
}
