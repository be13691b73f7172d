// Colours. Both palettes are those of Okabe and Ito (2008), with two more for the phases, moved until any two of the phases and
// any two of the runs are at least 20 apart (CIE76), to normal vision and without any one of the three kinds of cones (Machado
// et al. 2009), as tests/process/page/colours_test.py measures: unmoved, grey and purple were 7 apart to deuteranopes. Bars also
// differ by pattern and stand in one order, lines by dash and symbol.

const kDark = window.matchMedia('(prefers-color-scheme: dark)');

// runs: yellow is left out, of which a thin line cannot be seen on white, and the first is the blue that is seen best.
const kLightTheme = {
  text: '#1b1f24', muted: '#57606a', line: '#d0d7de', background: '#ffffff', pale: '#f3f5f7',
  runs: ['#00619f', '#d25c00', '#0b976b', '#c578a6', '#e9a100', '#4db9f3', '#000000'],
  bands: ['#00204c', '#273d65', '#515a6e', '#797873', '#a09775', '#cab969'],
};
const kDarkTheme = {
  text: '#e6edf3', muted: '#9aa4af', line: '#3a424c', background: '#12161b', pale: '#222930',
  runs: ['#5fc3fb', '#d35c00', '#19a072', '#c578a8', '#eaa101', '#116aa8', '#efefef'],
  bands: ['#4c566e', '#6f7172', '#908b77', '#b5a86f', '#dac75e', '#ffe945'],
};

// What is on paper is light, whatever the screen was.
export function themeFor(paper) {
  return !paper && kDark.matches ? kDarkTheme : kLightTheme;
}

export function onThemeChange(listener) {
  kDark.addEventListener('change', listener);
}

// Patterns of bars, in the words of ECharts' decals: dashes along and across, turned.
const kShade = 'rgba(0, 0, 0, 0.4)';
const lines = (rotation, gap = 5) => (
  { symbol: 'rect', color: kShade, dashArrayX: [1, 0], dashArrayY: [2, gap], rotation });
const kNoPattern = { symbol: 'none' };
const kPatterns = {
  BATCH: kNoPattern,
  COMPUTE_GRADS: kNoPattern,
  APPLY_GRADS: lines(Math.PI / 4),
  PS_APPLY_GRADS: { symbol: 'circle', color: kShade, dashArrayX: [[8, 8], [0, 8, 8, 0]], dashArrayY: [6, 0], symbolSize: 0.6 },
  STEP: kNoPattern,
  BARRIER: lines(-Math.PI / 4),
  PS_PARAM: lines(Math.PI / 2),
  P_CACHE_PARAM: kNoPattern,
  T_CACHE_PARAM: lines(0),
  unaccounted: lines(Math.PI / 4, 3),
};
// The timeline's boxes are too small for patterns: there colour is all they have.
const kPhaseColours = {
  BATCH: '#b3aba4',
  COMPUTE_GRADS: '#0063a2',
  APPLY_GRADS: '#59bbf3',
  PS_APPLY_GRADS: '#269961',
  STEP: '#f6e02f',
  BARRIER: '#c85300',
  PS_PARAM: '#dd9900',
  P_CACHE_PARAM: '#c27cb0',
  T_CACHE_PARAM: '#864d75',
  unaccounted: '#e4e4e4',
};

// From little to much: cividis, which all kinds of colour vision see grow lighter (Nuñez et al., PLoS ONE 13(7), 2018), without
// the end that the theme's background has too: the lowest band is to be told from an empty place.
export function bandColour(band, of, theme) {
  return theme.bands[of <= 1 ? 0 : Math.round(band * (theme.bands.length - 1) / (of - 1))];
}

export function phaseStyle(phase, theme) {
  if (phase === 'not training') return { color: theme.pale, decal: kNoPattern, borderColor: theme.muted, borderWidth: 0.5 };
  return { color: kPhaseColours[phase] ?? '#e4e4e4', decal: kPatterns[phase] ?? kNoPattern, borderColor: theme.background,
           borderWidth: 0.5 };
}

// What a stage of a pipeline does, in colours of phases, so that they are told apart: forward, forward once more, backward.
// `text`: what can be read on it.
export const kPasses = [
  { name: 'forward', letter: 'F', color: kPhaseColours.COMPUTE_GRADS, text: '#ffffff' },
  { name: 'forward once more', letter: 'R', color: kPhaseColours.PS_PARAM, text: '#000000' },
  { name: 'backward', letter: 'B', color: kPhaseColours.APPLY_GRADS, text: '#000000' },
];
const kStageTimes = { computed: 'COMPUTE_GRADS', 'waited for the stage in front': 'BARRIER', 'waited for the stage behind': 'PS_PARAM' };
export const kStageTimeNames = Object.keys(kStageTimes);
export const stageTimeStyle = (name, theme) => phaseStyle(kStageTimes[name], theme);

// Of the run at that place among the runs.
export function runStyle(index, theme) {
  const dashes = ['solid', 'dashed', [2, 3], [8, 3, 2, 3]];
  const symbols = ['circle', 'rect', 'triangle', 'diamond', 'pin'];
  const patterns = [kNoPattern, lines(Math.PI / 4), lines(-Math.PI / 4), lines(0), lines(Math.PI / 2)];
  return { color: theme.runs[index % theme.runs.length], dash: dashes[index % dashes.length],
           symbol: symbols[index % symbols.length], decal: patterns[index % patterns.length] };
}
