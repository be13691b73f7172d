// Runs of local steps: a worker exchanges once a round. How many rounds there were, of how many mini-batches each, and the
// samples that each node's were of; as `paceline report` prints them (common/report/local_rounds.h).
import { fixed, isNumber, kNone, plain } from './format.js';
import { setting } from './settings.js';

const kNodesMax = 8;  // on a card; all are in summary.json

// What bounds a round besides, behind its mini-batches.
function until(run) {
  const time = setting(run, 'train.local_time');
  return time ? `at most, in ${time}` : '';
}

// Of a run that is over, for its card: as numbers() there.
export function roundNumbers(run) {
  const { rounds, summary } = run;
  if (!rounds) return [];
  return [
    ['rounds', fixed(summary.rounds, 0), '', 'rounds'],
    ['local steps', plain(rounds.mini_batches), rounds.differ ? 'on average' : until(run)],
    ['mini-batches computed', isNumber(rounds.computed) ? fixed(rounds.computed, 0) : kNone, ''],
  ];
}

// A line for each node, where not all had as many.
export function samplesOfNodes({ samples, rounds }) {
  if (!samples) return [];
  const what = rounds ? 'samples in a round' : 'samples in a mini-batch';
  const said = samples.nodes.slice(0, kNodesMax).map(([node, last, inRun]) => (
    `node ${node}: ${last} ${what} at last, ${inRun} in the run`));
  return samples.of > said.length ? [...said, `and of ${fixed(samples.of - said.length, 0)} more nodes`] : said;
}

// Of a run that goes, s: its status. What was computed may be of rounds that are not applied, or were skipped.
export function liveRoundNumbers(run, s) {
  const steps = Number(setting(run, 'train.local_steps') ?? 1);
  if (!(steps > 1)) return [];
  const computed = s.samples / Number(setting(run, 'train.batch_size'));
  const differ = setting(run, 'train.local_balance') === 'speed';
  return [
    ['rounds', `${fixed(s.iterations / steps, 0)} of ${fixed(s.iterations_total / steps, 0)}`, '', 'rounds'],
    ['local steps', fixed(steps, 0), differ ? 'on average' : until(run), 'local_steps'],
    ['mini-batches computed', fixed(computed, 0), s.before.iterations > 0 ? 'since the resume' : '', 'computed'],
  ];
}
