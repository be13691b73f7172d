"""The page's colours (web/src/theme.js), and those of scripts/plot_run.py: any two that may stand in one chart are told apart by readers
who lack one of the three kinds of cones, too. Colours are simulated as Machado, Oliveira and Fernandes do (A Physiologically-based
Model for Simulation of Color Vision Deficiency, IEEE TVCG 15(6), 2009; severity 1, on linear RGB) and compared in CIELAB (D65) by their
distance (CIE76): 2 is just seen where both touch. No browser is needed."""

import ast
import itertools
import json
import math
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "daemons"))
import harness

LEAST = 20.0  # told apart across a chart, in a legend's small marks
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
NO_PATTERN = "kNoPattern"


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def cielab(colour, vision):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    seen = [min(max(part, 0.0), 1.0) for part in times(VISIONS[vision], linear)]
    white = times(XYZ, (1, 1, 1))
    x, y, z = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
               for t in (part / of for part, of in zip(times(XYZ, seen), white)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one, other):
    """The least of all kinds of vision: (distance, vision)."""
    return min((math.dist(cielab(one, vision), cielab(other, vision)), vision) for vision in VISIONS)


def constant(script, name):
    """What stands between the brackets of `const NAME = {…}` or `[…]`, without its comments."""
    found = re.search(rf"const {name} = ([{{\[].*?[}}\]]);", script, re.DOTALL)
    if found is None:
        raise AssertionError(f"web/src/theme.js: no {name}")
    return re.sub(r"//.*", "", found.group(1))


def table(text):
    """{key: value} of a JavaScript object, values as they are written."""
    return {key: value.strip() for key, value in re.findall(r"^\s*(\w+): (.*?),?$", text, re.MULTILINE)}


def listed(text):
    return json.loads(text.replace("'", '"'))


class Colours(unittest.TestCase):
    """The palettes of phases and of runs, in both themes."""

    @classmethod
    def setUpClass(cls):
        cls.script = (harness.SOURCE / "web/src/theme.js").read_text(encoding="utf-8")
        cls.phases = {phase: colour.strip("'") for phase, colour in table(constant(cls.script, "kPhaseColours")).items()}
        cls.patterns = table(constant(cls.script, "kPatterns"))
        cls.themes = {}
        for name in ("kLightTheme", "kDarkTheme"):
            text = constant(cls.script, name)
            cls.themes[name] = {key: re.search(rf"\b{key}: '(#\w+)'", text).group(1) for key in ("background", "pale")}
            cls.themes[name]["runs"] = listed(re.search(r"runs: (\[.*?\])", text).group(1))
        plots = ast.parse((harness.SOURCE / "scripts/plot_run.py").read_text(encoding="utf-8"))
        names = ("PHASES", "RUN_COLOURS", "RUN_DASHES", "RUN_MARKERS")
        cls.plots = {ast.unparse(line.targets[0]): ast.literal_eval(line.value) for line in plots.body
                     if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) in names}

    def assert_apart(self, one, other, about):
        distance, vision = difference(one, other)
        self.assertGreaterEqual(distance, LEAST, f"{about}: {one} and {other}, {vision}")

    def test_the_measure_finds_the_pair_that_was_confused(self):
        distance, vision = difference("#999999", "#cc79a7")  # of Okabe and Ito's palette, and a grey
        self.assertEqual((round(distance, 1), vision), (7.1, "deuteranopia"))
        self.assertAlmostEqual(difference("#000000", "#ffffff")[0], 100.0, places=3)
        self.assertAlmostEqual(math.dist(cielab("#ff0000", "normal"), (53.24, 80.09, 67.20)), 0.0, delta=0.02)

    def test_any_two_phases_are_told_apart_without_their_patterns(self):
        self.assertEqual((len(self.phases), self.phases.keys()), (10, self.patterns.keys()))  # nine, and what is unaccounted
        for one, other in itertools.combinations(self.phases, 2):
            self.assert_apart(self.phases[one], self.phases[other], f"{one} and {other}")

    def test_phases_are_told_from_an_empty_place_and_from_the_time_without_training(self):
        """Which has no pattern, and is pale; what is unaccounted is, too, on paper, and has one."""
        self.assertNotEqual(self.patterns["unaccounted"], NO_PATTERN)
        for theme, of in self.themes.items():
            for phase in self.phases.keys() - {"unaccounted"}:
                for place in ("background", "pale"):
                    self.assert_apart(self.phases[phase], of[place], f"{theme}: {phase} and {place}")

    def test_any_two_runs_are_told_apart_and_from_an_empty_place(self):
        for theme, of in self.themes.items():
            self.assertEqual(len(of["runs"]), 7)
            for one, other in itertools.combinations([*of["runs"], of["background"]], 2):
                self.assert_apart(one, other, theme)

    def test_runs_that_share_a_colour_differ_by_dash_symbol_and_pattern(self):
        colours = len(self.themes["kLightTheme"]["runs"])
        dashes, symbols = (listed(constant(self.script, name)) for name in ("dashes", "symbols"))
        patterns = re.findall(r"kNoPattern|lines\([^)]*\)", constant(self.script, "patterns"))
        for marks in (dashes, symbols, patterns, self.plots["RUN_DASHES"], self.plots["RUN_MARKERS"]):
            self.assertEqual(len({str(mark) for mark in marks}), len(marks))
            for one, other in itertools.combinations(range(0, 4 * colours, colours), 2):
                self.assertNotEqual(marks[one % len(marks)], marks[other % len(marks)])

    def test_figures_of_plot_run_have_the_colours_of_the_page(self):
        self.assertEqual({phase: colour for phase, (colour, _) in self.plots["PHASES"].items()}, self.phases)
        self.assertEqual({phase: hatch != "" for phase, (_, hatch) in self.plots["PHASES"].items()},
                         {phase: pattern != NO_PATTERN for phase, pattern in self.patterns.items()})
        self.assertEqual(list(self.plots["RUN_COLOURS"]), self.themes["kLightTheme"]["runs"])


if __name__ == "__main__":
    harness.main()
