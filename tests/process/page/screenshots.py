"""Pictures of a report, as its readers see it: screenshots.py REPORT.html FOLDER writes light.png, dark.png, phone.png,
phone_dark.png and paper.pdf."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser


def main():
    page, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with Browser() as window:
        for name, width, dark in (("light", 1100, False), ("dark", 1100, True), ("phone", 390, False), ("phone_dark", 390, True)):
            window.show(page, width, dark)
            window.screenshot(folder / f"{name}.png")
        window.pdf(folder / "paper.pdf")


main()
