"""Pictures of a report, as its readers see it: screenshots.py REPORT.html FOLDER writes light.png, dark.png, phone.png,
phone_dark.png and paper.pdf. With --top HEIGHT only the first HEIGHT pixels of each, packed well, and no paper: for a
README (scripts/make_screenshots.sh)."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser

WINDOWS = (("light", 1100, False), ("dark", 1100, True), ("phone", 390, False), ("phone_dark", 390, True))


def make_small(file):
    """The browser packs for speed. Without loss: a palette would let some of the phases' colours go."""
    from PIL import Image

    with Image.open(file) as picture:
        picture.convert("RGB").save(file, optimize=True)


def main():
    parser = argparse.ArgumentParser(description="Pictures of a report.")
    parser.add_argument("report", type=pathlib.Path, metavar="REPORT.html")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--top", type=int, metavar="HEIGHT", help="only the first pixels, in small files, and no paper.pdf")
    parser.add_argument("--prefix", default="", help="of the files' names")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with Browser() as window:
        for name, width, dark in WINDOWS:
            file = options.folder / f"{options.prefix}{name}.png"
            window.show(options.report, width, dark)
            window.screenshot(file, options.top)
            if options.top:
                make_small(file)
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
        if not options.top:
            window.pdf(options.folder / f"{options.prefix}paper.pdf")


main()
