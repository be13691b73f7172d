// What was sent, from the summaries, and along the runs that were traced.
import { addFigure, addNothing, axis, namesWidth, tooltip } from '../chart.js';
import { isNumber, kNone, megabytes, plain } from '../format.js';
import { runStyle } from '../theme.js';
import { kSeconds, linesOfRuns } from './lines.js';

const kKinds = [
  { key: 'bytes_pushed', name: 'pushed (gradients)' },
  { key: 'bytes_pulled', name: 'pulled (parameters)' },
  { key: 'bytes_shared', name: 'in shared memory' },
  { key: 'bytes_pushed_early', name: 'early, of pushed and shared' },
];

export function bytes(parent, page) {
  const title = 'Bytes moved';
  const runs = page.runs.filter((run) => run.summary && kKinds.some(({ key }) => run.summary[key] > 0));
  if (runs.length === 0) return addNothing(parent, 'bytes', title, 'No run has counted bytes in its summary.json.');
  const kinds = kKinds.filter(({ key }) => runs.some((run) => run.summary[key] > 0));
  const left = (width) => namesWidth(runs.map((run) => run.label), width);
  addFigure(parent, {
    id: 'bytes', title, names: kinds.map(({ name }) => name),
    caption: 'Megabytes (10⁶ bytes) of the whole run: header and payload bytes handed to the transport, and payload bytes ' +
        'in memory that both sides see.',
    height: () => runs.length * (kinds.length * 13 + 14) + 52,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 48 },
      xAxis: axis(theme, 'MB', { type: 'value', nameGap: 28, splitNumber: width < 500 ? 3 : 6 }),
      yAxis: axis(theme, '', { type: 'category', inverse: true, data: runs.map((run) => run.label),
                               label: { width: left(width) - 12, overflow: 'truncate', interval: 0 } }),
      tooltip: {
        trigger: 'axis', axisPointer: { type: 'shadow' },
        formatter: (points) => tooltip(runs[points[0].dataIndex].label, points.map((point) => [
          point.color, `${point.seriesName} ${megabytes(point.value * 1e6)} MB`])),
      },
      series: kinds.map(({ key, name }, i) => {
        const { color, decal } = runStyle(i, theme);
        return { name, type: 'bar', itemStyle: { color, decal }, emphasis: { disabled: true },
                 data: runs.map((run) => (isNumber(run.summary[key]) ? run.summary[key] * 1e-6 : 0)) };
      }),
    }),
    columns: ['run', ...kinds.map(({ name }) => `${name}, MB`), 'pushed and pulled, MB for each iteration'],
    rows: () => runs.map(({ label, summary }) => [
      label, ...kinds.map(({ key }) => megabytes(summary[key])),
      plain(1e-6 * (summary.bytes_pushed + summary.bytes_pulled) / summary.iterations)]),
  });
}

// A trace knows when gradients were applied, the summary what each cost to move.
function rateOf(run) {
  const moved = run.summary && run.summary.bytes_pushed + run.summary.bytes_pulled + (run.summary.bytes_shared ?? 0);
  if (!run.trace?.gradients || !(run.summary?.iterations > 0) || !(moved > 0)) return [];
  const { from, stretch, gradients } = run.trace;
  return gradients.map((count, i) => [
    from + (i + 0.5) * stretch, kNone, count / stretch * moved / run.summary.iterations * 1e-6]);
}

export function rates(parent, page) {
  const runs = page.runs.map((run) => {
    const points = rateOf(run);
    return { label: run.label, curve: { rate: { points, of: points.length } } };
  });
  if (runs.every((run) => run.curve.rate.points.length === 0)) return;
  linesOfRuns(parent, { ...page, runs }, {
    id: 'rates', title: 'Bytes per second against time',
    caption: 'Gradients applied in each stretch of a traced run, times what was pushed, pulled and shared for each of them in ' +
        'the mean of the run.',
    nothing: '', unit: 'MB/s', digits: 3, drawings: [{ key: 'rate', name: 'moved' }],
  }, kSeconds);
}
