// Where figures that draw a run along its time get their numbers from: its trace (tools/page_trace.cc). What a run has not is
// null, and one note says for all such runs what a figure needs.
import { addNothing } from './chart.js';
import { kNone } from './format.js';

// For gaps().
export function gapsOf(run) {
  return run.trace?.gaps ? run.trace : null;
}

// For timeline().
export function stepsOf(run) {
  return run.trace?.spans ? run.trace : null;
}

const kIterations = 3;  // a stretch has at least: with fewer, clocks that all end together would be a comb

// What was moved in each stretch, as points of lines.js that hold until the next: [[s, –, MB/s], …]. A trace knows when gradients
// were applied, the summary what each cost to move, in the mean.
export function movedOf(run) {
  const moved = run.summary && run.summary.bytes_pushed + run.summary.bytes_pulled + (run.summary.bytes_shared ?? 0);
  if (!run.trace?.gradients || !(run.summary?.iterations > 0) || !(moved > 0)) return null;
  const { from, stretch, iteration, gradients } = run.trace;
  const joined = Math.max(Math.ceil(kIterations * (iteration ?? 0) / stretch), 1);
  const groups = Math.max(Math.floor(gradients.length / joined), 1);
  const edge = (group) => Math.floor(group * gradients.length / groups);
  const points = Array.from({ length: groups }, (_, i) => {
    const [begin, end] = [edge(i), edge(i + 1)];
    const count = gradients.slice(begin, end).reduce((sum, some) => sum + some, 0);
    return [from + begin * stretch, kNone, count / ((end - begin) * stretch) * moved / run.summary.iterations * 1e-6];
  });
  return [...points, [from + gradients.length * stretch, kNone, points[points.length - 1][2]]];
}

// In place of a figure, for all the runs that it cannot show.
export function nothingOf(parent, page, id, title, lacking) {
  if (lacking.length === 0) return;
  const which = page.runs.length === 1 ? 'which this one was not' : `not of ${lacking.map((run) => run.label).join(', ')}`;
  addNothing(parent, id, title, `Only of a run with run.trace: true, ${which}.`);
}
