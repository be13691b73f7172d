"""Pictures of a report, as its readers see it: screenshots.py REPORT.html FOLDER writes light.png, dark.png, phone.png,
phone_dark.png and paper.pdf. With --top HEIGHT only the first HEIGHT pixels of each, with --figures only these, packed well, and
no paper: for a README (scripts/make_screenshots.sh). With --live DONE the first argument is the server.log of a run that goes
with run.http: its page is looked at when so much of it is done, in per cent."""

import argparse
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser

WINDOWS = {"light": (1100, False), "dark": (1100, True), "phone": (390, False), "phone_dark": (390, True)}
STARTS = 60  # seconds that a run may need until its log says where it is shown
# Resolves when so much of the run is done, in per cent, or soon after it is all the page will say; false then.
DONE = """
  const [least, patience] = arguments;
  return new Promise((done) => {
    const look = () => {
      if (Number(document.querySelector('[data-live=done]')?.textContent) >= least) done(true);
      else setTimeout(look, 200);
    };
    setTimeout(() => done(false), patience);
    look();
  });"""

# After a frame in which what is open was drawn anew.
DRAWN = "return new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(() => done(true))); });"


def make_small(file):
    """The browser packs for speed. Without loss: a palette would let some of the phases' colours go."""
    from PIL import Image

    with Image.open(file) as picture:
        picture.convert("RGB").save(file, optimize=True)


def live_address(log):
    """Where the run is shown, as soon as its log says so."""
    until = time.monotonic() + STARTS
    while time.monotonic() < until:
        found = re.search(r"the run is shown at (http://\S+)", log.read_text(encoding="utf-8")) if log.exists() else None
        if found:
            return found.group(1)
        time.sleep(0.1)
    sys.exit(f"screenshots.py: {log} says nowhere within {STARTS} s that the run is shown; expected a run with run.http")


def wait_for(window, done):
    """Until the live page says that so much is done; a browser answers within a minute, a run may take longer."""
    while not window.evaluate(DONE, done, 20_000):
        if "over" in window.evaluate("return document.querySelector('.connection').textContent"):
            sys.exit(f"screenshots.py: the run was over before {done} % of it were seen to be done")


def main():
    parser = argparse.ArgumentParser(description="Pictures of a report.")
    parser.add_argument("report", type=pathlib.Path, metavar="REPORT.html")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--top", type=int, metavar="HEIGHT", help="only the first pixels, in small files, and no paper.pdf")
    parser.add_argument("--figures", nargs="+", default=[], metavar="ID", help="only these, from the first to the last; as --top")
    parser.add_argument("--live", type=float, metavar="DONE", help="REPORT.html is the server.log of a run that goes; at so many %%")
    parser.add_argument("--windows", nargs="+", choices=WINDOWS, default=list(WINDOWS), help="which of them")
    parser.add_argument("--prefix", default="", help="of the files' names")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    part = bool(options.top or options.figures)
    with Browser() as window:
        if options.live is not None:
            window.visit(live_address(options.report))
            wait_for(window, options.live)
        for name in options.windows:
            file = options.folder / f"{options.prefix}{name}.png"
            width, dark = WINDOWS[name]
            if options.live is None:
                window.show(options.report, width, dark)
            else:  # what it has drawn since it was opened would go
                window.resize(width, dark)
                window.evaluate(DRAWN)
            window.screenshot(file, options.top, options.figures)
            if part:
                make_small(file)
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
        if not part and options.live is None:
            window.pdf(options.folder / f"{options.prefix}paper.pdf")


main()
