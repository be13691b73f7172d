// How learning went, against time and against iterations, with which rate, and how the threshold followed it: the rows of
// curve.csv.
import { kIterations, kSeconds, linesOfRuns } from './lines.js';

const kAccuracy = {
  caption: 'With symbols: of the test set, at each evaluation. ' +
           'Thin: of the mini-batches of an LPR window; of a run without windows, of those since the evaluation before.',
  nothing: 'No run has measured an accuracy: curve.csv has no row with one.',
  unit: 'accuracy, %', suffix: ' %', digits: 2,
  drawings: [{ key: 'test_accuracy', name: 'test', scale: 100 },
             { key: 'train_accuracy', name: 'training', scale: 100, thin: true }],
};
const kLoss = {
  caption: 'Mean over the samples. With symbols: of the test set, at each evaluation. ' +
           'Thin: of the mini-batches of an LPR window; of a run without windows, of those since the evaluation before.',
  nothing: 'No run has recorded a loss: curve.csv has no row with one.',
  unit: 'loss', digits: 4,
  drawings: [{ key: 'test_loss', name: 'test' }, { key: 'train_loss', name: 'training', thin: true }],
};
const kRate = {
  id: 'learning-rate', title: 'Learning rate against iterations',
  caption: 'Of the step that led to a row\'s version; of version 0, of the first step. With scale, warm-up and schedule; ' +
           'of local steps the inner optimizer\'s, in the first of a round.',
  nothing: 'No run has recorded a learning rate: curve.csv has no row with one.',
  unit: 'learning rate', fromZero: true,
  drawings: [{ key: 'learning_rate', name: 'rate' }],
};
const kThreshold = {
  id: 'threshold', title: 'Threshold against time',
  caption: 'How many iterations a worker might lead the slowest. Where it is infinite (ASP) nothing is drawn.',
  nothing: 'No threshold to draw: none of the runs has recorded a finite one in its curve.csv.',
  unit: 'threshold, iterations', digits: 0, integers: true,
  drawings: [{ key: 'threshold', name: 'threshold', step: 'end', none: '∞' }],
};
const kLpr = {
  id: 'lpr', title: 'Learning progress ratio (LPR) against time',
  caption: 'Relative change of the training metric from one window to the next; above 0 is progress.',
  nothing: 'No run has recorded an LPR: curve.csv has no row with one.',
  unit: 'LPR, %', suffix: ' %', digits: 2,
  drawings: [{ key: 'lpr', name: 'LPR' }],
};

export function learning(parent, page) {
  linesOfRuns(parent, page, { ...kAccuracy, id: 'accuracy-time', title: 'Accuracy against time' }, kSeconds);
  linesOfRuns(parent, page, { ...kAccuracy, id: 'accuracy-iterations', title: 'Accuracy against iterations' }, kIterations);
  linesOfRuns(parent, page, { ...kLoss, id: 'loss-time', title: 'Loss against time' }, kSeconds);
  linesOfRuns(parent, page, { ...kLoss, id: 'loss-iterations', title: 'Loss against iterations' }, kIterations);
  linesOfRuns(parent, page, kRate, kIterations);
}

export function progress(parent, page) {
  linesOfRuns(parent, page, kThreshold, kSeconds);
  linesOfRuns(parent, page, kLpr, kSeconds);
}
