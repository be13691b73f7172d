"""The page of a run that goes, in a real browser: it keeps itself up to date, its charts grow, its console is empty, and it asks
for nothing but from the server it came from. Skipped where there is no Chromium (scripts/install_deps.sh --browser has it)."""

import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser
import harness
from harness import DaemonTest

# Resolves once the page has come so far that the function in arguments[0] gives something true: looked at after each change.
WAIT = """
  const reached = new Function(arguments[0]);
  return new Promise((done) => {
    const look = () => {
      const value = reached();
      if (!value) return false;
      done(value);
      return true;
    };
    if (look()) return;
    const observer = new MutationObserver(() => { if (look()) observer.disconnect(); });
    observer.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  });"""
# What a figure has drawn in the colours of its data: the lines' paths, without the legend's, which are 20 px wide. A point more
# changes them, but need not make them longer: a threshold that stays where it is is one straight line all the while.
DRAWN = """
  const figure = document.getElementById('%s');
  if (!figure || !figure.querySelector('.chart')) return '';
  const colours = JSON.parse(figure.querySelector('.chart').dataset.colours);
  return [...figure.querySelectorAll('svg path')].filter((mark) => colours.includes(mark.getAttribute('stroke')))
      .filter((mark) => mark.getBBox().width > 20).map((mark) => mark.getAttribute('d')).join(' ');"""
# How many bars and cells a figure has drawn, without the legend's marks, which are 20 by 12 px.
FILLED = """
  const figure = document.getElementById('%s');
  if (!figure || !figure.querySelector('.chart')) return 0;
  const colours = JSON.parse(figure.querySelector('.chart').dataset.colours);
  return [...figure.querySelectorAll('svg path')].filter((mark) => colours.includes(mark.getAttribute('fill')))
      .map((mark) => mark.getBBox()).filter(({ width, height }) => width > 0.5 && height > 0.5)
      .filter(({ width, height }) => !(Math.abs(width - 20) < 0.1 && Math.abs(height - 12) < 0.1)).length;"""
# Of the first worker's state, for whom it waits and its score: what that one would have to scroll sideways for.
OUT_OF_SIGHT = """
  const box = document.querySelector('.workers .scroll').getBoundingClientRect();
  const cells = [...document.querySelector('.workers tbody tr').cells].slice(2, 5);
  return cells.filter((cell) => cell.getBoundingClientRect().right > box.right).map((cell) => cell.textContent);"""
LIVE_FIGURES = ("live-gap", "live-rate", "live-bytes")
CURVES = ("accuracy-time", "loss-time", "learning-rate", "threshold")
SO_FAR = ("gaps-live", "phases-nodes-live", "phases-workers-live", "staleness-clocks", "staleness-gradients")
REPORT = ("phases-runs", "phases-nodes-0", "phases-workers-0", "staleness-clocks", "bytes")


@unittest.skipIf(browser.missing(), f"not installed: {', '.join(browser.missing())} (scripts/install_deps.sh --browser)")
class LivePage(DaemonTest):
    """The page of a real run."""

    def test_it_grows_while_the_run_goes_and_says_when_it_is_over(self):
        servers, nodes = self.start_training(
            "run.http=127.0.0.1:0", "sync.policy=dtssp", "sync.lpr.window_clocks=10", "train.eval_every_clocks=20",
            "emulate.base_step=15ms", "emulate.slowdown=[1, 1.5]", "train.local_steps=2", "train.local_balance=speed",
            "train.inner_optimizer.lr=0.01")
        self.address = self.http_address()
        with browser.Browser() as window:
            for width, dark in ((390, True), (1100, False)):
                with self.subTest(width=width, dark=dark):
                    window.visit(f"http://{self.address}/", width, dark)
                    before = {name: self.wait(window, DRAWN % name) for name in (*LIVE_FIGURES, *CURVES)}
                    for name, paths in before.items():
                        self.wait(window, f"const now = (() => {{ {DRAWN % name} }})(); return now && now !== '{paths}';")
                    self.assertEqual(window.evaluate(OUT_OF_SIGHT), [])
                    if not dark:  # by now its server has written how the run went before the page was opened
                        rows = window.evaluate(browser.TABLE, "#live-bytes details")[1:]
                        self.assertLess(float(rows[0][0]), 2.0, rows[:3])
                        # But for the time between what it had written and the first event.
                        self.assertLessEqual(sum(moved == "–" for _, moved, _ in rows), 1, rows)
                    for name in SO_FAR:
                        self.wait(window, FILLED % name)
                    self.assertEqual(len(window.evaluate("return [...document.querySelectorAll('.workers tbody tr')].length "
                                                         "=== 4 ? [1] : []")), 1)
                    self.assertEqual(window.evaluate("return document.querySelector('[data-live=policy]').textContent"), "dtssp")
                    self.assertEqual(window.evaluate(
                        "return [...document.querySelectorAll('.workers tbody tr')].filter((row) => row.cells[7].textContent > 0).length"), 4)
                    self.assertEqual(
                        window.evaluate("return document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)
                    self.assertEqual(window.log(), [])
            servers[0].send(signal.SIGTERM)
            over = "The run is over: below is its report."
            output = self.wait(window, f"const over = document.querySelector('.connection').textContent === '{over}';"
                                     "return over && Object.fromEntries([...document.querySelectorAll('[data-live]')]"
                                     ".map((shown) => [shown.dataset.live, shown.textContent]));")
            for name in REPORT:
                self.assertGreater(window.evaluate(FILLED % name), 0, name)
            shown = window.evaluate("return [...document.querySelectorAll('[data-key=final_version]')].map((s) => s.textContent)")
            self.assertEqual(shown, [output["version"]])
            self.assertEqual(window.evaluate("return document.querySelectorAll('[id$=-live]').length"), 0)
            # The page may have asked for the newest curves just when the server ended: the browser says so, not the page.
            self.assertEqual([line for line in window.log() if "/data.json - Failed to load" not in line], [])
            asked = {address for address in window.requests() if address != "data:,"}
            self.assertEqual({address.split("/")[2] for address in asked}, {self.address}, asked)
            self.assertEqual({address.split("/")[3] for address in asked}, {"", "events", "data.json"})
        for program in servers + nodes:
            program.end()
        summary = self.summary()
        self.assertEqual(int(output["version"].replace("\u202f", "")), summary["final_version"])
        self.assertEqual(int(output["iterations"].split(" of ")[0].replace("\u202f", "")), summary["iterations"])
        self.assertEqual(output["rounds"].replace("\u202f", ""), f"{summary['rounds']} of 50000000")
        self.assertEqual((output["local_steps"], output["learning_rate"]), ("2", "0.01"))
        self.assertGreaterEqual(int(output["computed"].replace("\u202f", "")), summary["iterations"])
        self.assertIn("stopped", output["state"])

    def wait(self, window, condition):
        return window.evaluate(WAIT, condition)


if __name__ == "__main__":
    harness.main()
