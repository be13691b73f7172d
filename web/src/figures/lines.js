// Numbers along a run: accuracy, loss, threshold and LPR, of all runs in one chart.
import { addFigure, addNothing, axis, tooltip } from '../chart.js';
import { fixed, isNumber, kNone, plain } from '../format.js';
import { runStyle } from '../theme.js';

const kSymbolsMax = 60;  // points of a line that have symbols each
export const kSeconds = { name: 'seconds since the first grant', short: 's', column: 0, needs: '' };
export const kIterations = {
  name: 'iterations (gradients of all workers in the global parameters)', short: 'iterations', column: 2,
  needs: ' A row needs its iterations, too, which those of older versions lack.',
};

// A point is [seconds, version, iterations, value].
const kValue = 3;

function data(run, drawing, along) {
  return run.curve[drawing.key].points.filter((point) => isNumber(point[along.column])).map((point) => [
    point[along.column], isNumber(point[kValue]) ? point[kValue] * (drawing.scale ?? 1) : null]);
}

// Of a line the point that is nearest to a place, or, where it holds until the next, the last one before it.
function pointAt(points, place, step) {
  const behind = points.findIndex(([at]) => at > place);
  if (step && (behind === 0 || place > points[points.length - 1][0])) return [place, undefined];
  if (behind === 0) return points[0];
  const before = points[behind === -1 ? points.length - 1 : behind - 1];
  if (step || behind === -1) return before;
  return place - before[0] <= points[behind][0] - place ? before : points[behind];
}

function series(run, index, theme, drawing, along) {
  const style = runStyle(index, theme);
  const { points } = run.curve[drawing.key];
  return {
    name: run.label, type: 'line', step: drawing.step, connectNulls: false, emphasis: { disabled: true },
    symbol: style.symbol, symbolSize: 6, showSymbol: !drawing.thin && !drawing.step && points.length <= kSymbolsMax,
    itemStyle: { color: style.color },
    lineStyle: { color: style.color, type: style.dash, width: drawing.thin ? 1 : 2, opacity: drawing.thin ? 0.8 : 1 },
    data: data(run, drawing, along),
  };
}

// about: {id, title, caption, nothing, unit, suffix (behind a number), digits (none: plain()), integers, fromZero, secondsOnly,
// drawings: [{key, name, thin, step, scale, none}]}, along: of the two above.
export function linesOfRuns(parent, page, about, along) {
  const place = (value) => fixed(value, along.column === 0 ? 1 : 0);
  const said = (value) => about.digits === undefined ? plain(value) : fixed(value, about.digits);
  const shown = (point) => isNumber(point[kValue]) && isNumber(point[along.column]);
  const has = (run, drawing) => run.curve?.[drawing.key]?.points.some(shown) ?? false;
  const runs = page.runs.map((run, index) => ({ run, index }))
      .filter(({ run }) => about.drawings.some((drawing) => has(run, drawing)));
  if (runs.length === 0) return addNothing(parent, about.id, about.title, about.nothing + along.needs);
  const lines = runs.flatMap(({ run, index }) => about.drawings.filter((drawing) => has(run, drawing))
      .map((drawing) => ({ run, index, drawing })));
  const thinned = lines.some(({ run, drawing }) => run.curve[drawing.key].points.length < run.curve[drawing.key].of);
  addFigure(parent, {
    id: about.id, title: about.title, names: runs.map(({ run }) => run.label),
    caption: about.caption +
        (thinned ? ' Of long runs the least and the greatest value of each stretch are kept; curve.csv has all.' : ''),
    height: (width) => (width < 500 ? 250 : 300),
    option: (theme, width) => ({
      grid: { left: 58, right: 18, bottom: 48 },
      xAxis: axis(theme, along.name, { type: 'value', nameGap: 28, splitNumber: width < 500 ? 3 : 6, scale: false }),
      yAxis: axis(theme, about.unit, { type: 'value', nameGap: 42, scale: !about.integers && !about.fromZero,
                                       minInterval: about.integers ? 1 : undefined,
                                       max: about.integers ? ({ max }) => max + 1 : undefined }),
      tooltip: {
        trigger: 'axis',
        formatter: ([{ axisValue }]) => tooltip(`${place(axisValue)} ${along.short}`, lines.map(({ run, index, drawing }) => {
          const [at, value] = pointAt(data(run, drawing, along), axisValue, drawing.step);
          const number = isNumber(value) ? `${said(value)}${about.suffix ?? ''}` : (value === null && drawing.none) || kNone;
          return [runStyle(index, theme).color, `${run.label}: ${drawing.name} ${number}${drawing.step ? '' : ` at ${place(at)}`}`];
        })),
      },
      series: lines.map(({ run, index, drawing }) => series(run, index, theme, drawing, along)),
    }),
    columns: ['run', 'what', 'seconds', ...(about.secondsOnly ? [] : ['version', 'iterations']), about.unit],
    rows: () => lines.flatMap(({ run, drawing }) => run.curve[drawing.key].points.map((point) => [
      run.label, drawing.name, plain(point[0]),
      ...(about.secondsOnly ? [] : [String(point[1]), isNumber(point[2]) ? String(point[2]) : kNone]),
      point[kValue] === null ? drawing.none ?? kNone : plain(point[kValue] * (drawing.scale ?? 1))])),
  });
}
