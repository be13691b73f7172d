// Numbers as people read them. What is missing in a run directory, or is no number there, is a dash.

export const kNone = '–';
const kMinus = '−';

export function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

function grouped(digits, isNegative) {
  const [whole, rest] = digits.split('.');
  return (isNegative ? kMinus : '') + whole.replace(/\B(?=(\d{3})+$)/g, '\u202f') + (rest ? '.' + rest : '');
}

// `digits` behind the point, the thousands apart: 12 345.678.
export function fixed(value, digits) {
  return isNumber(value) ? grouped(Math.abs(value).toFixed(digits), value < 0) : kNone;
}

// Of an axis: as many digits as it needs.
export function tick(value) {
  return grouped(String(Number(Math.abs(value).toPrecision(12))), value < 0);
}

// Six significant digits at most, without zeros at the end: for tables of anything.
export function plain(value) {
  if (!isNumber(value)) return kNone;
  return String(Number(value.toPrecision(6))).replace('-', kMinus);
}

export const seconds = (value) => fixed(value, 3);
export const percent = (share) => isNumber(share) ? fixed(100 * share, 2) : kNone;
export const megabytes = (bytes) => isNumber(bytes) ? fixed(bytes * 1e-6, 3) : kNone;

// In summary.json null is infinity, and no key says nothing.
export function threshold(value) {
  return value === null ? '∞' : fixed(value, 0);
}

// As JSON has it, to the last digit: what may be compared with the file.
export function exact(value) {
  if (value === undefined) return kNone;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
