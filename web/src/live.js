// A run that goes (docs/LIVE.md): what the server's events say, each second, behind what its server had written of it when the
// page was opened (progress.csv, which has no speeds and no thresholds).
import { addFigure, axis, forgetFigures, redraw, tooltip } from './chart.js';
import { element, table } from './dom.js';
import { gaps } from './figures/gaps.js';
import { phasesOfRun } from './figures/phases.js';
import { stalenessFigures } from './figures/staleness.js';
import { fixed, isNumber, kNone, percent, plain, threshold } from './format.js';
import { liveRoundNumbers } from './rounds.js';
import { runStyle } from './theme.js';

const kPointsMax = 3600;  // an hour; of what is older every other second is kept, and so on
const kRetry = 3000;      // ms after which the curves are asked for again where that failed
const kSoFarEvery = 5;    // s: how often the sums so far are drawn anew
const kStretches = 96;    // of the heat map, and
const kGapsMax = 64;      // workers: as on the page of a traced run
const kGapDrawn = 2;      // s: what is not known between the run's file and the first event is not drawn as a line
const kNothing = { gap: null, threshold: null, samples_per_second: null, megabytes: null, bus: null, names: [], gaps: [] };

// Seconds as a clock shows them: 1:02:33.
function clockTime(value) {
  if (!isNumber(value)) return kNone;
  const whole = Math.round(value);
  const two = (number) => String(number).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

const limit = (value) => (value === 'inf' ? '∞' : threshold(value));

function numbers(s, run) {
  return [
    ['state', s.outcome ? `${s.state}: ${s.outcome}` : s.state, '', 'state'],
    ['policy', s.policy, '', 'policy'],
    ['time', clockTime(s.seconds), '', 'seconds'],
    ['time left', clockTime(s.seconds_left), '', 'seconds_left'],
    ['done', fixed(100 * s.done, 1), '%', 'done'],
    ['iterations', `${fixed(s.iterations, 0)} of ${fixed(s.iterations_total, 0)}`, '', 'iterations'],
    ...liveRoundNumbers(run, s),
    ['samples / s', fixed(s.samples_per_second, 1), '', 'samples_per_second'],
    ['version', fixed(s.version, 0), '', 'version'],
    ['clock gap', fixed(s.gap, 0), 'iterations', 'gap'],
    ['threshold', limit(s.threshold), '', 'threshold'],
    ['learning rate', plain(s.learning_rate), '', 'learning_rate'],
    ['LPR', fixed(s.lpr_percent, 2), '%', 'lpr_percent'],
    ['training loss', fixed(s.train_loss, 4), '', 'train_loss'],
    ['training accuracy', percent(s.train_accuracy), '%', 'train_accuracy'],
    ['test accuracy', percent(s.test_accuracy), '%', 'test_accuracy'],
    ['nodes', s.state === 'over' ? `${s.nodes.length}` : `${s.nodes.filter((node) => node.up).length} of ${s.nodes.length}`, '', 'nodes'],
    ['stragglers', s.stragglers.join(', ') || 'none', '', 'stragglers'],
  ];
}

function card(s, run) {
  return element('section', { class: 'card' },
      element('dl', {}, ...numbers(s, run).map(([name, text, unit, key]) => element('div', {}, element('dt', {}, name),
          element('dd', {}, element('span', { 'data-live': key }, text), unit ? ` ${unit}` : '')))),
      s.waits.length > 0 ? element('ul', { class: 'waits' }, ...s.waits.map((text) => element('li', {}, text))) : null);
}

function workers(s) {
  const share = (value) => fixed(value, 2);
  const balanced = s.workers.some(({ samples }) => isNumber(samples));
  const rows = s.workers.map((worker) => [worker.worker, String(worker.clock), worker.state, worker.waits_for,
    share(worker.relative_score), share(worker.individual_score), fixed(worker.iteration_seconds, 3),
    ...(balanced ? [fixed(worker.samples, 0)] : [])]);
  const all = table(['worker', 'clock', 'state', 'waits for', '/ fastest', '/ best', 's / it.', ...(balanced ? ['samples'] : [])], rows);
  if (s.workers_total <= s.workers.length) return all;
  return element('div', {}, all, element('p', {}, `and ${s.workers_total - s.workers.length} more workers`));
}

// Figures over the seconds of training: about has lines [{name, value(status), step}].
function addLines(parent, points, about) {
  addFigure(parent, {
    id: about.id, title: about.title, caption: about.caption, names: about.lines.map(({ name }) => name),
    height: (width) => (width < 500 ? 200 : 220),
    option: (theme, width) => ({
      grid: { left: 58, right: 18, bottom: 48 },
      xAxis: axis(theme, 'seconds since the first grant', { type: 'value', nameGap: 28, splitNumber: width < 500 ? 3 : 6,
                                                            scale: true }),
      yAxis: axis(theme, about.unit, { type: 'value', nameGap: 42, minInterval: about.integers ? 1 : undefined }),
      tooltip: { trigger: 'axis', formatter: (at) => tooltip(`${fixed(at[0].value[0], 1)} s`,
          at.map((point) => [point.color, `${point.seriesName} ${plain(point.value[1])}`])) },
      series: about.lines.map(({ name, value, step }, i) => {
        const { color, dash } = runStyle(i, theme);
        return { name, type: 'line', step, showSymbol: false, emphasis: { disabled: true }, itemStyle: { color },
                 lineStyle: { color, type: dash, width: 2 },
                 data: points.map((s) => [s.seconds, isNumber(value(s)) ? value(s) : null]) };
      }),
    }),
    columns: ['seconds', ...about.lines.map(({ name }) => name)],
    rows: () => points.map((s) => [plain(s.seconds), ...about.lines.map(({ value }) => plain(value(s)))]),
  });
}

// Where the time of the workers that are in the status has gone, as the page of a run that is over has it.
function phasesOf(s, phases) {
  const totals = (ns, wall) => ({ wall, unaccounted: wall - ns.reduce((sum, part) => sum + part, 0) * 1e-9,
                                  phases: phases.map((_, i) => ({ seconds: ns[i] * 1e-9 })) });
  const told = s.workers.filter(({ wall_ns: wall }) => wall > 0);
  const nodes = [...new Set(told.map(({ node }) => node))].map((node) => {
    const own = told.filter((worker) => worker.node === node);
    const sum = (of) => own.reduce((all, worker) => all + of(worker), 0);
    return { node, workers: own.length,
             ...totals(phases.map((_, i) => sum((worker) => worker.phases_ns[i])), sum((worker) => worker.wall_ns) * 1e-9) };
  });
  return { of: s.workers_total, of_nodes: s.nodes.length, nodes,
           workers: told.map(({ worker, phases_ns: ns, wall_ns: wall }) => ({ worker, ...totals(ns, wall * 1e-9) })) };
}

// The run before the page was opened, as points like those of events; each stands for the time up to the next.
function pointsBefore({ progress }) {
  if (!progress) return [];
  const { workers: names, rows } = progress;
  return rows.slice(1).map(([seconds, bytes, gaps], i) => {
    const known = names.length < kGapsMax ? gaps.filter(isNumber) : [];  // else others may be further ahead
    const since = seconds - rows[i][0];
    return { seconds, stands: true, gap: known.length > 0 ? Math.max(...known) : null, threshold: null, samples_per_second: null,
             megabytes: since > 0 ? (bytes - rows[i][1]) * 1e-6 / since : null, names, gaps };
  });
}

function lastMoved({ progress }) {
  const [seconds, bytes] = progress?.rows[progress.rows.length - 1] ?? [];
  return isNumber(seconds) ? { seconds, bytes } : null;
}

// How far each worker was ahead, in stretches of one length: what the last event within each said.
function gapsOf(points) {
  const [first, last] = [points[0].seconds, points[points.length - 1].seconds];
  const stretch = Math.max((last - first) / kStretches, 2);  // of two events: each stretch has one
  const columns = Array.from({ length: Math.max(Math.ceil((last - first) / stretch), 1) }, () => null);
  const column = ({ seconds }) => Math.min(Math.floor((seconds - first) / stretch), columns.length - 1);
  points.forEach((point, i) => {
    columns.fill(point, column(point), (point.stands && i + 1 < points.length ? column(points[i + 1]) : column(point)) + 1);
  });
  const none = points[0].gaps.map(() => null);
  return { from: first, stretch, workers: points[points.length - 1].names, gaps: columns.map((point) => (point?.gaps.length > 0 ? point.gaps : none)) };
}

// Of what nodes have reduced among themselves, MB/s of one of them; null: nothing.
const busOf = ({ reduced, reducing_ns: ns }) => (ns > 0 ? reduced * 1e3 / ns : null);

// Fills `parent`, and calls `draw` with the page's data whenever the run's curve has grown, and when it is over.
export function live(parent, page, draw) {
  const said = element('p', { class: 'connection', role: 'status' }, 'connecting …');
  const current = element('div', { class: 'cards live' });
  const rows = element('div', { class: 'workers' });
  parent.append(said, current);
  const points = pointsBefore(page.runs[0]);
  addLines(parent, points, { id: 'live-gap', title: 'Clock gap and threshold', unit: 'iterations', integers: true,
                             caption: 'How far the fastest worker is ahead of the slowest, each second; before the page was opened, as often ' +
                                 `as progress.csv says, of runs of fewer than ${kGapsMax} workers. And how far it may be when it is ` +
                                 'granted an iteration, since then. An infinite threshold (ASP) is not drawn.',
                             lines: [{ name: 'clock gap', value: (s) => s.gap },
                                     { name: 'threshold', value: (s) => s.threshold, step: 'end' }] });
  addLines(parent, points, { id: 'live-rate', title: 'Speed', unit: 'samples / s',
                             caption: 'Samples in the iterations that workers have reported, over the last ten seconds; since the page was opened.',
                             lines: [{ name: 'samples / s', value: (s) => s.samples_per_second }] });
  addLines(parent, points, { id: 'live-bytes', title: 'Bytes per second', unit: 'MB / s',
                             caption: 'Header and payload bytes of gradients and parameters, payload bytes in memory that both sides ' +
                                 'see, and those that nodes reduced among themselves, since the event before; before the page was ' +
                                 'opened, of longer stretches. Bus bandwidth: what a node sends while it reduces, over the run so far.',
                             lines: [{ name: 'moved', value: (s) => s.megabytes },
                                     { name: 'bus bandwidth', value: (s) => s.bus }] });
  const soFar = element('div');
  parent.append(element('h3', {}, 'Workers'), rows, element('p', { class: 'note' },
      'Speed of the last iterations: / fastest, of the fastest worker\'s; / best, of its own best. s / it.: seconds of an iteration. ' +
      'Samples, where not all have as many: of the mini-batch, or the round, that it was granted last.'),
      soFar);

  let drawnAt = -Infinity;
  const drawSoFar = (s) => {
    if (s.seconds - drawnAt < kSoFarEvery) return;
    drawnAt = s.seconds;
    const open = [...soFar.querySelectorAll('figure details[open]')].map((details) => details.closest('figure').id);
    forgetFigures(soFar);
    soFar.replaceChildren();
    const run = { label: page.runs[0].label, phases: phasesOf(s, page.phases), staleness: s.staleness };
    if (points.length > 0) gaps(soFar, gapsOf(points), 'live');
    phasesOfRun(soFar, page, run, 'live', true);
    stalenessFigures(soFar, { ...page, runs: [run] });
    for (const id of open) soFar.querySelector(`#${id} details`)?.setAttribute('open', '');
  };

  let curveRows = null;
  let asking = false;
  let ended = false;
  const ask = async (over) => {
    const answer = await fetch('data.json');
    if (!answer.ok) throw new Error(`${answer.status}`);
    const fresh = await answer.json();
    if (over || !ended) draw(fresh, over);
  };
  const refresh = async (count) => {
    if (asking || count === curveRows) return;
    asking = true;
    try {
      await ask(false);
      curveRows = count;
    } catch {
      await new Promise((done) => { setTimeout(done, kRetry); });
    }
    asking = false;
  };
  const add = (point) => {
    points.push(point);
    if (points.length > kPointsMax) {
      const kept = points.filter((_, i) => i >= kPointsMax / 2 || i % 2 === 0);
      points.splice(0, points.length, ...kept);
    }
    redraw('live-gap');
    redraw('live-rate');
    redraw('live-bytes');
  };

  // The server stays for a moment to be asked once more; what it does not answer, `paceline report` knows.
  const finish = async () => {
    ended = true;
    events.close();
    said.textContent = 'The run is over.';
    try {
      await ask(true);
      said.textContent = 'The run is over: below is its report.';
      forgetFigures(soFar);
      soFar.replaceChildren();
    } catch {
      said.textContent = 'The run is over, and its server has gone: paceline report shows the whole of it.';
    }
  };

  let moved = lastMoved(page.runs[0]);  // {seconds, bytes} of the event before
  const rate = ({ seconds, moved: { pushed, pulled, shared, reduced } }) => {
    const bytes = pushed + pulled + shared + (reduced ?? 0);
    const since = moved && seconds > moved.seconds ? (bytes - moved.bytes) * 1e-6 / (seconds - moved.seconds) : null;
    moved = { seconds, bytes };
    return since;
  };

  // What an event says is drawn where it is of a later time: the first may be of before the page's data. Servers that went on
  // with the run from a checkpoint (--resume) begin again at its time, and what came after it is no longer part of the run.
  let heard = false;
  const isNew = ({ seconds }) => {
    const last = points[points.length - 1]?.seconds ?? -1;
    const back = heard && seconds < last;
    heard = true;
    if (!back) {
      if (seconds - last > kGapDrawn && points[points.length - 1]?.stands) points.push({ ...kNothing, seconds: last });
      return seconds > last;
    }
    while (points.length > 0 && points[points.length - 1].seconds >= seconds) points.pop();
    moved = null;
    drawnAt = -Infinity;
    return true;
  };

  const events = new EventSource('events');
  events.addEventListener('status', ({ data }) => {
    const s = JSON.parse(data);
    current.replaceChildren(card(s, page.runs[0]));
    rows.replaceChildren(workers(s));
    if (s.state === 'over') return finish();
    said.textContent = 'Live: updated each second.';
    if (s.state === 'training' && isNew(s)) {
      const shown = s.workers.slice(0, kGapsMax);
      const gone = ({ state }) => state === 'lost' || state === 'finished' || state === 'absent';
      add({ seconds: s.seconds, gap: s.gap, threshold: s.threshold, samples_per_second: s.samples_per_second,
            megabytes: rate(s), bus: busOf(s.moved), names: shown.map(({ worker }) => worker),
            gaps: shown.map((worker) => (gone(worker) ? null : worker.clock - s.min_clock)) });
      drawSoFar(s);
    }
    return refresh(s.curve_rows);
  });
  events.addEventListener('error', () => {
    if (events.readyState !== EventSource.CLOSED) said.textContent = 'The server does not answer; trying again …';
  });
}
