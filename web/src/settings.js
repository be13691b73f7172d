// The effective configuration of each run: what tells the runs apart, what is not the default, and everything.
import { details, element, table } from './dom.js';
import { kNone } from './format.js';

// Where a run was, rather than what it did: different in any two runs.
const kOwn = new Set(['run.out', 'run.http']);

// What of a value tells runs apart. Of endpoints: how they are reached and how many there are; ports and the names of sockets
// are drawn anew for each run.
function telling(key, value) {
  return key === 'cluster.endpoints' ? String(value).match(/\w+:\/\//g)?.join() ?? value : value;
}

// One of them, as text; null where that is what it says, or the run says nothing of it.
export function setting(run, key) {
  const value = run.settings?.find(([of]) => of === key)?.[1] ?? null;
  return value === 'null' ? null : value;
}

export function settings(parent, page) {
  const runs = page.runs.filter((run) => run.settings);
  for (const run of page.runs.filter((other) => !other.settings && other.config)) {
    parent.append(details(`config.yaml of ${run.label}, as it is`, () => element('pre', { tabindex: 0 }, run.config)));
  }
  if (runs.length === 0) {
    if (parent.childElementCount === 1) parent.append(element('p', {}, 'No run has a config.yaml.'));
    return;
  }
  const values = runs.map((run) => new Map(run.settings));
  const defaults = new Map(page.defaults);
  const keys = [...new Set(values.flatMap((of) => [...of.keys()]))];
  const row = (key) => [key, ...values.map((of) => of.get(key) ?? kNone), defaults.get(key) ?? kNone];
  const columns = ['key', ...runs.map((run) => run.label), 'default'];
  const wrapped = (of) => element('div', { class: 'wrapped' }, table(columns, of.map(row)));
  const differ = keys.filter((key) => !kOwn.has(key) && new Set(values.map((of) => telling(key, of.get(key)))).size > 1);
  if (runs.length > 1) {
    parent.append(element('h3', {}, 'What tells the runs apart'),
        differ.length > 0 ? wrapped(differ) : element('p', {}, 'Nothing: the configurations say the same.'));
  }
  const changed = keys.filter((key) => values.some((of) => of.get(key) !== defaults.get(key)));
  parent.append(details('What is not the default', () => wrapped(changed), { id: 'changed-settings' }),
      details('The whole effective configuration', () => wrapped(keys), { id: 'all-settings' }));
}
