// The numbers of each run at the top of the page, and all of summary.json in a table. Of a run without one: what common/page/page_data.cc
// knows of it from its other files.
import { details, element, table } from './dom.js';
import { exact, fixed, isNumber, kNone, megabytes, percent, seconds, threshold } from './format.js';
import { roundNumbers, samplesOfNodes } from './rounds.js';

// Each with the key of summary.json that it shows, where it shows one as it is: a test compares.
function numbers(run) {
  const s = run.summary;
  const barrier = s.phases?.BARRIER?.total_seconds;
  const workers = run.phases ? run.phases.of : s.workers;
  return [
    ['policy', s.policy ?? kNone, '', 'policy'],
    ['nodes × threads', `${s.nodes ?? kNone} × ${s.threads_per_node ?? kNone}`, ''],
    ['iterations', fixed(s.iterations, 0), '', 'iterations'],
    ...roundNumbers(run),
    ['time', seconds(s.wall_seconds), 's', 'wall_seconds'],
    ['iterations / s', s.wall_seconds > 0 ? fixed(s.iterations / s.wall_seconds, 2) : kNone, ''],
    ['test accuracy', percent(s.test_accuracy), '%', 'test_accuracy'],
    ['test loss', fixed(s.test_loss, 4), '', 'test_loss'],
    ['held at the barrier', isNumber(barrier) && workers > 0 ? seconds(barrier / workers) : kNone, 's / worker'],
    ['final version', fixed(s.final_version, 0), '', 'final_version'],
    ['final threshold', threshold(s.final_threshold), '', 'final_threshold'],
    ['largest clock gap', fixed(s.max_clock_gap, 0), run.rounds ? 'rounds' : 'iterations', 'max_clock_gap'],
    ['mean staleness', fixed(s.staleness?.clocks?.mean, 2), 'clocks', 'staleness.clocks.mean'],
    ['pushed', megabytes(s.bytes_pushed), 'MB', 'bytes_pushed'],
    ['pulled', megabytes(s.bytes_pulled), 'MB', 'bytes_pulled'],
    ['reduced, between nodes', s.bytes_reduced > 0 ? megabytes(s.bytes_reduced) : kNone, 'MB', 'bytes_reduced'],
    ['bus bandwidth', s.bus_bytes_per_second > 0 ? megabytes(s.bus_bytes_per_second) : kNone, 'MB / s', 'bus_bytes_per_second'],
    ['in shared memory', s.bytes_shared > 0 ? megabytes(s.bytes_shared) : kNone, 'MB', 'bytes_shared'],
  ];
}

// Of a run without a summary: any may be missing or null, which says that nobody knows it. An infinite threshold is 'inf'.
function knownNumbers(known) {
  const has = (value) => value !== undefined && value !== null;
  const part = (value) => (has(value) ? fixed(value, 0) : kNone);
  const cluster = has(known.nodes) || has(known.threads_per_node);
  return [
    ['policy', has(known.policy) ? String(known.policy) : kNone, '', 'known.policy'],
    ['nodes × threads', cluster ? `${part(known.nodes)} × ${part(known.threads_per_node)}` : kNone, '', 'known.cluster'],
    ['workers', part(known.workers), '', 'known.workers'],
    ['time', seconds(known.seconds), 's', 'known.seconds'],
    ['version', part(known.version), '', 'known.version'],
    ['threshold', known.threshold === 'inf' ? '∞' : part(known.threshold), '', 'known.threshold'],
    ['test accuracy', percent(known.test_accuracy), '%', 'known.test_accuracy'],
  ];
}

// What a reader must know before trusting the numbers.
function caveats(run) {
  const s = run.summary ?? {};
  const said = [...run.missing];
  if (run.differs) said.push(`other work than the first run's: ${run.differs}`);
  if (s.reason) said.push(s.reason);
  for (const lost of Array.isArray(s.lost) ? s.lost : []) said.push(`lost ${lost}`);
  for (const returned of Array.isArray(s.returned) ? s.returned : []) said.push(`came back: ${returned}`);
  if (s.skipped > 0) {
    said.push(`${fixed(s.skipped, 0)} of ${fixed(s.iterations + s.skipped, 0)} iterations were skipped, since a loss or gradient was not finite`);
  }
  if (s.overruns > 0) said.push(`${fixed(s.overruns, 0)} emulated steps took longer than they were to`);
  if (s.malformed > 0) said.push(`${fixed(s.malformed, 0)} malformed messages refused`);
  return said;
}

// Who was slow at the end, as docs/LIVE.md scores it.
function stragglers(run) {
  const said = Array.isArray(run.summary?.stragglers) ? run.summary.stragglers : [];
  return said.map(({ worker, relative, individual }) => (
    `straggler ${worker}: ${fixed(relative, 2)} of the fastest, ${fixed(individual, 2)} of its own best`));
}

// How an all-reduce summed, a line for each size of buckets, and why where it was measured.
function sums(run) {
  const said = Array.isArray(run.summary?.algorithms) ? run.summary.algorithms : [];
  return said.map((line) => `summed, ${line}`);
}

function list(name, said) {
  return said.length > 0 ? element('ul', { class: name }, ...said.map((text) => element('li', {}, text))) : null;
}

export function card(run) {
  const s = run.summary;
  const state = s ? s.status ?? 'unknown' : run.known?.status ?? 'unfinished';
  const shown = (s ? numbers(run) : knownNumbers(run.known ?? {})).filter(([, text]) => text !== kNone);
  return element('section', { class: 'card' },
      element('h3', {}, element('span', { class: 'name', title: run.name }, run.label), ' ',
          element('span', { class: state === 'ok' ? 'state ok' : 'state bad' }, state),
          s?.simulated ? element('span', { class: 'state' }, `simulated, seed ${exact(s.seed)}`) : null),
      shown.length > 0 ? element('dl', {}, ...shown.map(([name, text, unit, key]) => element('div', {}, element('dt', {}, name),
          element('dd', {}, element('span', key ? { 'data-key': key } : {}, text), unit ? ` ${unit}` : '')))) : null,
      list('sums', sums(run)), list('samples', samplesOfNodes(run)), list('stragglers', stragglers(run)), list('caveats', caveats(run)));
}

// {"a": {"b": 1}} → [["a.b", 1]]; a list is one value.
function leaves(value, path = '') {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, path ? `${path}.${key}` : key));
}

// Every key of every run's summary.json, to the last digit; null where no run has one.
export function wholeSummaries(page) {
  const runs = page.runs.filter((run) => run.summary);
  if (runs.length === 0) return null;
  return details('All of summary.json', () => {
    const values = runs.map((run) => new Map(leaves(run.summary)));
    const keys = [...new Set(values.flatMap((of) => [...of.keys()]))];
    return table(['key', ...runs.map((run) => run.label)],
        keys.map((key) => [key, ...values.map((of) => exact(of.get(key)))]));
  }, { id: 'whole-summaries' });
}
