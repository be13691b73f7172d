"""web/dist/page.html is what scripts/build_page.sh makes of web/src/: a page that is older than its sources fails here, without
node or npm. And a report is that page with data in the one place that it leaves open."""

import hashlib
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "daemons"))
import harness
from harness import DaemonTest

PLACE = "@PACELINE_DATA@"
REBUILD = "run scripts/build_page.sh and commit web/dist/"


class PageBundle(DaemonTest):
    """The bundled page and its sources."""

    def setUp(self):
        super().setUp()
        self.web = harness.SOURCE / "web"

    def sources(self):
        files = ["package.json", "package-lock.json", "build.mjs",
                 *(str(path.relative_to(self.web)) for path in (self.web / "src").rglob("*") if path.is_file())]
        return {name: hashlib.sha256((self.web / name).read_bytes()).hexdigest() for name in (*files, "dist/page.html")}

    def test_the_page_was_made_from_these_sources(self):
        recorded = (self.web / "dist/sources.sha256").read_text(encoding="utf-8").split()
        self.assertEqual(dict(zip(recorded[1::2], recorded[0::2])), self.sources(), f"web/dist/ is stale: {REBUILD}")

    def test_the_page_fetches_nothing_and_names_no_place_to_fetch_packages_from(self):
        page = (self.web / "dist/page.html").read_text(encoding="utf-8")
        self.assertEqual(page.count(PLACE), 1)
        self.assertEqual(re.findall(r"<(?:script|link|img|iframe)[^>]* (?:src|href)=\"(?!data:,\")[^>]*>", page), [])
        for name in ("Apache License", "zrender/LICENSE", "Redistribution and use in source and binary forms"):
            self.assertIn(name, page)  # the licences of what is bundled
        lock = (self.web / "package-lock.json").read_text(encoding="utf-8")
        self.assertNotIn("http", lock)
        self.assertNotIn('"resolved"', lock)

    def test_a_report_is_the_page_with_data_in_its_place(self):
        self.run_dir.mkdir()
        report = self.folder / "report.html"
        done = self.paceline("report", "--html", report, self.run_dir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        before, after = (self.web / "dist/page.html").read_text(encoding="utf-8").split(PLACE)
        text = report.read_text(encoding="utf-8")
        self.assertTrue(text.startswith(before) and text.endswith(after))
        self.assertNotIn("<", text[len(before):len(text) - len(after)])


if __name__ == "__main__":
    harness.main()
