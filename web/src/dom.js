// Elements, and nothing but elements: every text of a run comes in as a text node, so that no name, reason or
// configuration can become markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A table that scrolls sideways in a box of its own where it is wider than the page. The first cell of each row is its
// heading. rows: [[text, …], …].
export function table(columns, rows) {
  const head = element('tr', {}, ...columns.map((name) => element('th', { scope: 'col' }, name)));
  const body = rows.map(([first, ...rest]) => element('tr', {},
      element('th', { scope: 'row' }, first), ...rest.map((text) => element('td', {}, text))));
  return element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': columns.join(', ') },
      element('table', {}, element('thead', {}, head), element('tbody', {}, ...body)));
}

// Closed until asked for; `content`, a function, is called then and not before: a page of thirty runs would otherwise
// begin with a hundred thousand cells.
export function details(title, content, attributes = {}) {
  const made = element('details', attributes, element('summary', {}, title));
  made.addEventListener('toggle', () => made.append(content()), { once: true });
  return made;
}
