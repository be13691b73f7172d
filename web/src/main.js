// The page of `paceline report --html`: reads what common/page/page_data.cc has put into it and lays it out. docs/REPORT.md says
// what each figure shows.
import { forgetFigures } from './chart.js';
import { element } from './dom.js';
import { bytes, rates } from './figures/bytes.js';
import { gaps, kGapsTitle } from './figures/gaps.js';
import { learning, progress } from './figures/learning.js';
import { phasesOfRun, phasesOfRuns } from './figures/phases.js';
import { kPipelineTitle, pipelineStep, stageTimes } from './figures/pipeline.js';
import { stalenessFigures } from './figures/staleness.js';
import { kTimelineTitle, timeline } from './figures/timeline.js';
import { live } from './live.js';
import { settings } from './settings.js';
import { gapsOf, largestGap, nothingOf, pipelineOf, stepsOf } from './sources.js';
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

// A link to each section, below the page's title.
function contents(main) {
  const links = [...main.querySelectorAll('section > h2')].map((heading, i) => {
    heading.id = `section-${i}`;
    return element('a', { href: `#${heading.id}` }, heading.textContent);
  });
  main.querySelector('header').append(element('nav', { 'aria-label': 'Contents' }, ...links));
}

function label(page) {
  const labels = labelsOf(page.runs.map((run) => run.name));
  page.runs.forEach((run, i) => { run.label = labels[i]; });
}

// What the runs would have to have recorded for figures against time.
function unrecorded(time, page) {
  nothingOf(time, page, 'gaps', kGapsTitle, page.runs.filter((run) => !gapsOf(run)),
            'progress.csv, which a run writes from its first second on');
  const trace = 'trace.json, which run.trace: true records';
  nothingOf(time, page, 'timeline', kTimelineTitle, page.runs.filter((run) => !stepsOf(run)), trace);
  nothingOf(time, page, 'pipeline', kPipelineTitle, page.runs.filter((run) => run.summary?.pipeline && !pipelineOf(run)), trace);
}

function timeSection(main, page) {
  const time = section(main, 'Time');
  phasesOfRuns(time, page);
  if (page.runs.length > 1) unrecorded(time, page);
  const largest = largestGap(page.runs);
  page.runs.forEach((run, i) => {
    const parent = page.runs.length === 1 ? time : section(time, run.label);
    phasesOfRun(parent, page, run, i);
    if (Array.isArray(run.summary?.pipeline?.busy_seconds)) stageTimes(parent, run.summary.pipeline, i);
    if (pipelineOf(run)) pipelineStep(parent, pipelineOf(run), i);
    if (gapsOf(run)) gaps(parent, gapsOf(run), i, largest);
    if (stepsOf(run)) timeline(parent, page.phases, stepsOf(run), i);
  });
  if (page.runs.length === 1) unrecorded(time, page);
}

function learningSections(main, page) {
  learning(section(main, 'Learning'), page);
  const sync = section(main, 'Synchronisation');
  progress(sync, page);
  return sync;
}

// All that a run leaves behind.
function wholeRuns(main, page) {
  section(main, 'Summary', element('div', { class: 'cards' }, ...page.runs.map(card)), wholeSummaries(page));
  timeSection(main, page);
  stalenessFigures(learningSections(main, page), page);
  const traffic = section(main, 'Traffic');
  bytes(traffic, page);
  rates(traffic, page);
}

// Of a run that goes: what it says of itself now, where its time has gone so far, and, below it, what its curve says, drawn
// anew when that has grown. Once it is over: the whole report.
function showLive(main, page) {
  label(page);
  const { name, label: folder } = page.runs[0];
  main.append(element('header', {}, element('h1', {}, 'Paceline'), element('p', { title: name }, folder)));
  const now = section(main, 'Now');
  const curves = element('div');
  main.append(curves);
  const draw = (fresh, over) => {
    label(fresh);
    const open = [...curves.querySelectorAll('figure details[open]')].map((details) => details.closest('figure').id);
    forgetFigures(curves);
    curves.replaceChildren();
    if (over) wholeRuns(curves, fresh);
    else learningSections(curves, fresh);
    for (const id of open) curves.querySelector(`#${id} details`)?.setAttribute('open', '');
  };
  draw(page, false);
  settings(section(main, 'Configuration'), page);
  live(now, page, draw);
}

function show(page) {
  const main = document.getElementById('page');
  if (page.live) return showLive(main, page);
  label(page);

  main.append(element('header', {}, element('h1', {}, 'Paceline report'),
      element('p', {}, page.runs.length === 1 ? page.runs[0].name : `${page.runs.length} runs`)));
  wholeRuns(main, page);
  settings(section(main, 'Configuration'), page);
  contents(main);
}

show(JSON.parse(document.getElementById('data').textContent));
