// Where the time goes: the nine phases, stacked, of each run (DTSSP paper, Fig. 10), each node and each worker (Fig. 9).
import { addFigure, addNothing, axis, namesWidth, tooltip } from '../chart.js';
import { fixed, isNumber, kNone, percent, seconds } from '../format.js';
import { phaseStyle } from '../theme.js';

const kUnaccounted = 'unaccounted';
const kNotTraining = 'not training';
const kLeast = 0.001;  // s that are worth a part of their own
const kBarsMax = 128;  // in one chart; beyond it the table has the rest

const withRest = (phases, ...more) => [...phases, kUnaccounted, ...more];

// row: {label, title, parts: [seconds of each of `names`]}
// most: what the axis reaches to, where several charts are to be compared. unit: of the axis. style(name, theme): a part's.
export function stacked(id, title, caption, names, rows, { most, unit = 'seconds of a worker', style = phaseStyle } = {}) {
  const bars = rows.slice(0, kBarsMax);
  const left = (width) => namesWidth(bars.map((bar) => bar.label), width);
  const step = bars.length > 24 ? 16 : 26;
  return {
    id, title, names,
    caption: rows.length > bars.length ? `${caption} The first ${kBarsMax} of ${rows.length} are drawn.` : caption,
    height: () => bars.length * step + 52,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 48 },
      xAxis: axis(theme, unit, { type: 'value', nameGap: 28, max: most ? ({ max }) => Math.max(max, most) : undefined,
                                                  label: { showMaxLabel: most ? false : undefined } }),
      yAxis: axis(theme, '', { type: 'category', inverse: true, data: bars.map((bar) => bar.label),
                               label: { width: left(width) - 12, overflow: 'truncate', interval: 0 } }),
      tooltip: {
        trigger: 'axis', axisPointer: { type: 'shadow' },
        formatter: (points) => {
          const bar = bars[points[0].dataIndex];
          return tooltip(bar.title, names.map((name, i) => (
            [style(name, theme).color, `${name} ${seconds(bar.parts[i])} s`])));
        },
      },
      series: names.map((name, i) => ({
        name, type: 'bar', stack: 'time', barCategoryGap: '22%', itemStyle: style(name, theme),
        emphasis: { disabled: true },
        // What no phase owns can be a little below nothing: clocks are read in pairs. A bar cannot.
        data: bars.map((bar) => Math.max(isNumber(bar.parts[i]) ? bar.parts[i] : 0, 0)),
      })),
    }),
    columns: ['', ...names.map((name) => `${name} s`), 'all s'],
    rows: () => rows.map((row) => [
      row.title, ...row.parts.map(seconds), seconds(row.parts.reduce((sum, part) => sum + (part ?? 0), 0))]),
  };
}

// Of a run: phases and what is unaccounted, and up to the run's wall the time in which a worker had finished, or did not train yet.
function summaryParts(run, phases) {
  const workers = run.phases ? run.phases.of : run.summary.workers;
  if (!run.summary.phases || !(workers > 0)) return null;
  const each = (total) => (isNumber(total) ? total / workers : null);
  const parts = [...phases.map((phase) => each(run.summary.phases[phase]?.total_seconds)), each(run.summary.unaccounted_seconds)];
  const own = parts.reduce((sum, part) => sum + (part ?? 0), 0);
  return [...parts, isNumber(run.summary.wall_seconds) ? Math.max(run.summary.wall_seconds - own, 0) : null];
}

// Of a run without a summary, or whose nodes could not report at its end, as they had said: of all of them.
function partsSoFar(run, phases) {
  const nodes = run.phases?.nodes ?? [];
  if (nodes.length === 0 || nodes.length < run.phases.of_nodes) return null;
  const each = (of) => nodes.reduce((sum, node) => sum + of(node), 0) / run.phases.of;
  return [...phases.map((_, i) => each((node) => node.phases[i].seconds)), each((node) => node.unaccounted),
          isNumber(run.summary?.wall_seconds) ? Math.max(run.summary.wall_seconds - each((node) => node.wall), 0) : null];
}

// One bar for each run.
export function phasesOfRuns(parent, page) {
  const named = (run, policy) => (run.label.includes(policy) ? run.label : `${policy}: ${run.label}`);
  const rows = page.runs.map((run) => {
    const policy = run.summary?.policy ?? run.known?.policy;
    const name = policy ? named(run, String(policy)) : run.label;
    return { label: name, title: name, parts: run.summary && !run.phases?.so_far ? summaryParts(run, page.phases) : partsSoFar(run, page.phases) };
  }).filter((row) => row.parts !== null);
  const title = 'Where the time goes, by run';
  if (rows.length === 0) return addNothing(parent, 'phases-runs', title, 'No run says where its time went.');
  const someRest = rows.some(({ parts }) => parts[parts.length - 1] > kLeast);
  if (!someRest) for (const { parts } of rows) parts.pop();
  addFigure(parent, stacked('phases-runs', title,
      'Seconds of a worker in each phase, mean over the workers of the run (DTSSP paper, Fig. 10).' +
          (someRest ? ' Pale, up to the time of the run: a worker had finished while others still trained, or took no part yet.' : ''),
      withRest(page.phases, ...(someRest ? [kNotTraining] : [])), rows));
}

function partsOf(totals, workers, phases) {
  return [...phases.map((_, i) => totals.phases[i].seconds / workers), totals.unaccounted / workers];
}

function quantiles(totals, phases, name) {
  return phases.map((phase, i) => {
    const of = totals.phases[i];
    return [name, phase, fixed(of.count, 0), seconds(of.seconds), percent(totals.wall > 0 ? of.seconds / totals.wall : 0),
            seconds(of.count > 0 ? 1e3 * of.seconds / of.count : of.count), seconds(of.p50_ms), seconds(of.p95_ms), seconds(of.hidden)];
  });
}

// The longest bars of all runs: those of one chart are compared with another's.
function longest(page, of) {
  const runs = page.runs.filter((run) => run.phases);
  return runs.length < 2 ? undefined : Math.max(...runs.flatMap((run) => of(run.phases)));
}
const longestWorker = (page) => longest(page, ({ workers }) => workers.map(({ wall }) => wall));
const longestNode = (page) => longest(page, ({ nodes }) => nodes.map(({ wall, workers }) => wall / workers));

// A chart of the run's nodes and one of its workers. Of a live run there are the sums alone.
export function phasesOfRun(parent, page, run, index, live = false) {
  if (!run.phases || run.phases.workers.length === 0) {
    return addNothing(parent, `phases-workers-${index}`, 'Where the time goes, by worker',
        'No worker of this run has reported its phases.');
  }
  const { nodes, workers, of, of_nodes: ofNodes } = run.phases;
  const leftOut = (shown, all, what) => (
    shown.length < all ? ` This page has ${shown.length} of ${all} ${what}; phases.csv has all.` : '');
  addFigure(parent, stacked(`phases-nodes-${index}`, 'Where the time goes, by node',
      'Seconds of a worker in each phase, mean over the workers of the node.' + leftOut(nodes, ofNodes, 'nodes'),
      withRest(page.phases),
      nodes.map((node) => ({ label: `node ${node.node}`, title: `node ${node.node}, ${node.workers} workers`,
                             parts: partsOf(node, node.workers, page.phases) })), { most: longestNode(page) }));
  const figure = stacked(`phases-workers-${index}`, 'Where the time goes, by worker',
      'Seconds of each worker (node.thread) in each phase (DTSSP paper, Fig. 9).' + leftOut(workers, of, 'workers'),
      withRest(page.phases),
      workers.map((worker) => ({ label: worker.worker, title: worker.worker, parts: partsOf(worker, 1, page.phases) })),
      { most: longestWorker(page) });
  if (live) return addFigure(parent, figure);
  addFigure(parent, { ...figure,
    columns: ['worker', 'phase', 'count', 'total s', 'share %', 'mean ms', 'p50 ms', 'p95 ms', 'hidden s'],
    rows: () => workers.flatMap((worker) => quantiles(worker, page.phases, worker.worker)) });
}
