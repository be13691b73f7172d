// A network that was cut into stages: what each of them did in the run, and a step of stages and micro-batches (Huang et al.
// 2018, figure 2c), as common/page/page_pipeline.cc has put it into the page.
import { addFigure, axis, boxes, namesWidth, tooltip } from '../chart.js';
import { fixed, percent, seconds } from '../format.js';
import { kPasses, kStageTimeNames, stageTimeStyle } from '../theme.js';
import { workerRows } from './gaps.js';
import { stacked } from './phases.js';

export const kPipelineTitle = 'A step of stages and micro-batches';

// The share of all stages' time in which none computes, beside what it is of equal stages and micro-batches.
// With chunks each stage's passes are so many times as many, and as much shorter.
function bubbleText(share, stages, microBatches, chunks = 1) {
  const formula = `(K − 1) / (${chunks > 1 ? `${fixed(chunks, 0)} ` : ''}M + K − 1)`;
  return `bubble ${percent(share)}\u00a0%, ${formula} = ${percent((stages - 1) / (chunks * microBatches + stages - 1))}\u00a0%`;
}

// Of all chunks of a stage; none where the cut is not known.
function ofStage(parts, stage, stages) {
  return parts?.filter((_, part) => part % stages === stage).reduce((sum, one) => sum + one, 0);
}

// of: `pipeline` of summary.json. An older version's has no cut.
export function stageTimes(parent, of, index) {
  const rows = of.busy_seconds.map((busy, stage) => ({
    label: `stage ${stage}`, title: `stage ${stage}`,
    parts: [busy, of.idle_for_previous_seconds?.[stage], of.idle_for_next_seconds?.[stage]] }));
  const figure = stacked(`stages-${index}`, 'What stages computed, and whom they waited for',
      `Seconds of each stage within its steps, of all groups together: ${bubbleText(of.bubble_share, of.stages, of.micro_batches, of.chunks)} ` +
          `(K ${fixed(of.stages, 0)} stages, M ${fixed(of.micro_batches, 0)} micro-batches).`,
      kStageTimeNames, rows, { unit: 'seconds', style: stageTimeStyle });
  addFigure(parent, { ...figure,
    columns: ['stage', 'layers', 'parameters', ...kStageTimeNames.map((name) => `${name} s`), 'kept at most, bytes'],
    rows: () => rows.map(({ parts }, stage) => [
      String(stage), fixed(ofStage(of.layers, stage, of.stages), 0), fixed(ofStage(of.parameters, stage, of.stages), 0), ...parts.map(seconds),
      fixed(of.peak_activation_bytes?.[stage], 0)]) });
}

// of: {clock, of, step, bubble, passes, rows}
export function pipelineStep(parent, of, index) {
  const stages = of.rows.map((_, stage) => `stage ${stage}`);
  const flat = of.rows.flatMap((own, row) => own.map(([pass, microBatch, begin, length, chunk]) => (
    { pass, microBatch, chunk, begin: begin * 1e-3, end: (begin + length) * 1e-3, row })));
  const microBatches = new Set(flat.map(({ microBatch }) => microBatch)).size;
  const chunks = 1 + flat.reduce((last, { chunk }) => Math.max(last, chunk), 0);  // of a stage
  // As schedule::to_string() has it.
  const numbers = (microBatch, chunk) => `${microBatch}${chunk > 0 ? `.${chunk}` : ''}`;
  const used = kPasses.map((style, pass) => ({ ...style, pass })).filter(({ pass }) => flat.some((one) => one.pass === pass));
  const name = ({ pass, microBatch, chunk }) => `${kPasses[pass].letter}${numbers(microBatch, chunk)}`;
  const left = (width) => namesWidth(stages, width);
  const shown = flat.length < of.passes ? ` This page has room for the first ${fixed(flat.length, 0)} of its ${fixed(of.passes, 0)} passes.` : '';
  addFigure(parent, {
    id: `pipeline-${index}`, title: kPipelineTitle, names: used.map((style) => style.name),
    caption: `The step of clock ${of.clock}, the median of ${fixed(of.of, 0)} in the trace, as the first group's stages ran it: ` +
        `${fixed(1e3 * of.step, 3)} ms, ${bubbleText(of.bubble, stages.length, microBatches, chunks)}. A box is a pass, with the number of ` +
        `its micro-batch where it fits; between boxes a stage waits. The bar below chooses the stretch.${shown}`,
    height: () => stages.length * 26 + 92,
    option: (theme, width) => ({
      grid: { left: left(width), right: 18, bottom: 84 },
      xAxis: axis(theme, 'ms since the step began', { type: 'value', nameGap: 28, scale: true, max: 1e3 * of.step,
                                                      splitNumber: width < 500 ? 3 : 6,
                                                      label: { showMinLabel: false, showMaxLabel: false } }),
      yAxis: workerRows(stages, theme, left, width),
      dataZoom: [{ type: 'slider', filterMode: 'weakFilter', bottom: 8, height: 22, left: left(width), right: 18,
                   showDetail: false, brushSelect: false, textStyle: { color: theme.text }, borderColor: theme.line }],
      tooltip: {
        trigger: 'item',
        formatter: ({ color, seriesName, value }) => tooltip(`${stages[value[2]]}, micro-batch ${numbers(value[3], value[4])}`, [
          [color, `${seriesName} ${fixed(value[1] - value[0], 3)} ms`], [null, `from ${fixed(value[0], 3)} ms`]]),
      },
      series: used.map(({ name: series, color, text, pass }) => boxes(series, { color }, 0.8,
          flat.filter((one) => one.pass === pass).map(({ begin, end, row, microBatch, chunk }) => [begin, end, row, microBatch, chunk]),
          { text: (value) => numbers(value(3), value(4)), colour: text, edge: theme.background })),
    }),
    columns: ['stage', 'pass', 'from ms', 'ms'],
    rows: () => flat.map((one) => [String(one.row), name(one), fixed(one.begin, 3), fixed(one.end - one.begin, 3)]),
  });
}
