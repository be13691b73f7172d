// The page of `paceline report --html`: reads what tools/page_data.cc has put into it and lays it out. docs/REPORT.md says
// what each figure shows.
import { element } from './dom.js';
import { bytes, rates } from './figures/bytes.js';
import { learning, progress } from './figures/learning.js';
import { phasesOfRun, phasesOfRuns } from './figures/phases.js';
import { staleness } from './figures/staleness.js';
import { traced } from './figures/trace.js';
import { settings } from './settings.js';
import { card, wholeSummaries } from './summary.js';

// The last part of each run's path where that tells them apart, else all of it; a run given twice is numbered.
function labelsOf(names) {
  const last = names.map((name) => name.replace(/\/+$/, '').split('/').pop() || name);
  const chosen = new Set(last).size === names.length ? last : names;
  return chosen.map((name, i) => {
    const before = chosen.slice(0, i).filter((other) => other === name).length;
    return before === 0 ? name : `${name} (${before + 1})`;
  });
}

function section(parent, title, ...more) {
  const made = element('section', {}, element('h2', {}, title), ...more);
  parent.append(made);
  return made;
}

function show(page) {
  const main = document.getElementById('page');
  const labels = labelsOf(page.runs.map((run) => run.name));
  page.runs.forEach((run, i) => { run.label = labels[i]; });

  main.append(element('header', {}, element('h1', {}, 'Paceline report'),
      element('p', {}, page.runs.length === 1 ? page.runs[0].name : `${page.runs.length} runs`)));
  section(main, 'Summary', element('div', { class: 'cards' }, ...page.runs.map(card)), wholeSummaries(page));

  const time = section(main, 'Time');
  phasesOfRuns(time, page);
  page.runs.forEach((run, i) => {
    const parent = page.runs.length === 1 ? time : section(time, run.label);
    phasesOfRun(parent, page, run, i);
    traced(parent, page, run, i);
  });
  learning(section(main, 'Learning'), page);
  const sync = section(main, 'Synchronisation');
  progress(sync, page);
  staleness(sync, page, 'clocks',
      'How many clocks of some worker the parameters lacked at most with which an applied gradient was computed.');
  staleness(sync, page, 'gradients', 'How many gradients were applied between the parameters that a gradient was computed ' +
      'with and the ones it was applied to. Above 64 they are counted in ranges 3 % wide.');
  const traffic = section(main, 'Traffic');
  bytes(traffic, page);
  rates(traffic, page);
  settings(section(main, 'Configuration'), page);
}

show(JSON.parse(document.getElementById('data').textContent));
