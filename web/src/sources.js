// Where figures that draw a run along its time get their numbers from: its progress.csv, and its trace, which is finer
// (common/page/page_data.cc, page_trace.cc). What a run has not is
// null, and one note says for all such runs what a figure needs.
import { addNothing } from './chart.js';
import { kNone } from './format.js';

// For gaps().
export function gapsOf(run) {
  if (run.trace?.gaps) return run.trace;
  if (!run.progress) return null;
  const { workers, rows } = run.progress;
  const [from, to] = [rows[0][0], rows[rows.length - 1][0]];
  return { from, stretch: (to - from) / (rows.length - 1), workers, gaps: rows.slice(1).map(([, , gaps]) => gaps) };
}

// Of all these runs: their maps have the same colours.
export function largestGap(runs) {
  const gaps = runs.flatMap((run) => gapsOf(run)?.gaps ?? []).flat();
  return gaps.reduce((most, gap) => Math.max(most, gap ?? 0), 0);
}

// For timeline().
export function stepsOf(run) {
  return run.trace?.spans ? run.trace : null;
}

// For pipelineStep(): of a run whose network was cut into stages.
export function pipelineOf(run) {
  return run.trace?.pipeline ?? null;
}

const kClocks = 3;  // a stretch has at least: with fewer, clocks that all end together would be a comb

// What was moved in each stretch, as points of lines.js that hold until the next: [[s, –, –, MB/s], …].
export function movedOf(run) {
  if (!run.progress) return null;
  const { rows } = run.progress;
  const clock = run.summary?.final_version > 0 ? run.summary.wall_seconds / run.summary.final_version : 0;
  const points = [];
  let begin = rows[0];
  for (const row of rows.slice(1)) {
    if (row[0] - begin[0] < kClocks * clock || row[0] === begin[0]) continue;
    points.push([begin[0], kNone, kNone, (row[1] - begin[1]) / (row[0] - begin[0]) * 1e-6]);
    begin = row;
  }
  return points.length === 0 ? null : [...points, [begin[0], kNone, kNone, points[points.length - 1][3]]];
}

// In place of a figure, for all the runs that it cannot show.
export function nothingOf(parent, page, id, title, lacking, needs) {
  if (lacking.length === 0) return;
  const which = page.runs.length === 1 ? 'this one lacks it' : `it is missing of ${lacking.map((run) => run.label).join(', ')}`;
  addNothing(parent, id, title, `It is drawn from ${needs}: ${which}.`);
}
