// A run that goes (docs/LIVE.md): what the server's events say, each second. What there was before the page was opened is
// in the curves below; the two figures here begin with the first event.
import { addFigure, axis, redraw, tooltip } from './chart.js';
import { element, table } from './dom.js';
import { fixed, isNumber, kNone, percent, plain, threshold } from './format.js';
import { runStyle } from './theme.js';

const kPointsMax = 3600;  // an hour; of what is older every other second is kept, and so on
const kRetry = 3000;      // ms after which the curves are asked for again where that failed

// Seconds as a clock shows them: 1:02:33.
function clockTime(value) {
  if (!isNumber(value)) return kNone;
  const whole = Math.round(value);
  const two = (number) => String(number).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

const limit = (value) => (value === 'inf' ? '∞' : threshold(value));

function numbers(s) {
  return [
    ['state', s.outcome ? `${s.state}: ${s.outcome}` : s.state, '', 'state'],
    ['policy', s.policy, '', 'policy'],
    ['time', clockTime(s.seconds), '', 'seconds'],
    ['time left', clockTime(s.seconds_left), '', 'seconds_left'],
    ['done', fixed(100 * s.done, 1), '%', 'done'],
    ['iterations', `${fixed(s.iterations, 0)} of ${fixed(s.iterations_total, 0)}`, '', 'iterations'],
    ['samples / s', fixed(s.samples_per_second, 1), '', 'samples_per_second'],
    ['version', fixed(s.version, 0), '', 'version'],
    ['clock gap', fixed(s.gap, 0), 'iterations', 'gap'],
    ['threshold', limit(s.threshold), '', 'threshold'],
    ['LPR', fixed(s.lpr_percent, 2), '%', 'lpr_percent'],
    ['training loss', fixed(s.train_loss, 4), '', 'train_loss'],
    ['training accuracy', percent(s.train_accuracy), '%', 'train_accuracy'],
    ['test accuracy', percent(s.test_accuracy), '%', 'test_accuracy'],
    ['nodes', `${s.nodes.filter((node) => node.up).length} of ${s.nodes.length}`, '', 'nodes'],
    ['stragglers', s.stragglers.join(', ') || 'none', '', 'stragglers'],
  ];
}

function card(s) {
  return element('section', { class: 'card' },
      element('dl', {}, ...numbers(s).map(([name, text, unit, key]) => element('div', {}, element('dt', {}, name),
          element('dd', {}, element('span', { 'data-live': key }, text), unit ? ` ${unit}` : '')))),
      s.waits.length > 0 ? element('ul', { class: 'waits' }, ...s.waits.map((text) => element('li', {}, text))) : null);
}

function workers(s) {
  const share = (value) => fixed(value, 2);
  const rows = s.workers.map((worker) => [worker.worker, String(worker.clock), worker.state, worker.waits_for,
    fixed(worker.iteration_seconds, 3), share(worker.relative_score), share(worker.individual_score)]);
  const all = table(['worker', 'clock', 'state', 'waits for', 'iteration, s', 'speed / fastest', 'speed / own best'], rows);
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

// Fills `parent`, and calls `draw` with the page's data whenever the run's curve has grown.
export function live(parent, draw) {
  const said = element('p', { class: 'connection', role: 'status' }, 'connecting …');
  const current = element('div', { class: 'cards live' });
  const rows = element('div', { class: 'workers' });
  parent.append(said, current);
  const points = [];
  addLines(parent, points, { id: 'live-gap', title: 'Clock gap and threshold', unit: 'iterations', integers: true,
                             caption: 'How far the fastest worker is ahead of the slowest, each second, and how far it may be ' +
                                 'when it is granted an iteration. An infinite threshold (ASP) is not drawn.',
                             lines: [{ name: 'clock gap', value: (s) => s.gap },
                                     { name: 'threshold', value: (s) => s.threshold, step: 'end' }] });
  addLines(parent, points, { id: 'live-rate', title: 'Speed', unit: 'samples / s',
                             caption: 'Samples in the iterations that workers have reported, over the last ten seconds.',
                             lines: [{ name: 'samples / s', value: (s) => s.samples_per_second }] });
  parent.append(element('h3', {}, 'Workers'), rows);

  let curveRows = null;
  let asking = false;
  const refresh = async (count) => {
    if (asking || count === curveRows) return;
    asking = true;
    try {
      const answer = await fetch('data.json');
      if (!answer.ok) throw new Error(`${answer.status}`);
      draw(await answer.json());
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
  };

  const events = new EventSource('events');
  events.addEventListener('status', ({ data }) => {
    const s = JSON.parse(data);
    const over = s.state === 'over';
    said.textContent = over ? 'The run is over.' : 'Live: updated each second.';
    current.replaceChildren(card(s));
    rows.replaceChildren(workers(s));
    if (s.state === 'training') {
      add({ seconds: s.seconds, gap: s.gap, threshold: s.threshold, samples_per_second: s.samples_per_second });
    }
    // Once it is over there is soon nobody left to ask.
    if (over) events.close();
    else refresh(s.curve_rows);
  });
  events.addEventListener('error', () => {
    if (events.readyState !== EventSource.CLOSED) said.textContent = 'The server does not answer; trying again …';
  });
}
