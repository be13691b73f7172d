// What was sent, from the summaries, and along the runs that were traced.
import { addFigure, addNothing, axis, namesWidth, tooltip } from '../chart.js';
import { isNumber, megabytes, plain } from '../format.js';
import { movedOf, nothingOf } from '../sources.js';
import { runStyle } from '../theme.js';
import { kSeconds, linesOfRuns } from './lines.js';

const kKinds = [
  { key: 'bytes_pushed', name: 'pushed (gradients)' },
  { key: 'bytes_pulled', name: 'pulled (parameters)' },
  { key: 'bytes_shared', name: 'in shared memory' },
  { key: 'bytes_reduced', name: 'between nodes (all-reduce)' },
  { key: 'bytes_pushed_early', name: 'early, of any of these' },
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

// Against time, where there is something to tell it from.
export function rates(parent, page) {
  const title = 'Bytes per second against time';
  const runs = page.runs.map((run) => {
    const points = movedOf(run) ?? [];
    return { label: run.label, curve: { rate: { points, of: points.length } } };
  });
  const lacking = page.runs.filter((run) => !movedOf(run));
  if (lacking.length < runs.length) {
    linesOfRuns(parent, { ...page, runs }, {
      id: 'rates', title,
      caption: 'What the servers have pushed, pulled and shared in each stretch, at least three clocks long.',
      nothing: '', unit: 'MB/s', digits: 3, fromZero: true, secondsOnly: true,
      drawings: [{ key: 'rate', name: 'moved', step: 'end' }],
    }, kSeconds);
  }
  nothingOf(parent, page, 'rates-nothing', title, lacking, 'progress.csv, which a run writes from its first second on');
}
