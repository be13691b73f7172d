#!/usr/bin/env bash
# Bundles web/src/ and the charting library into web/dist/page.html, the page of `paceline report --html`. Needs node
# (18 or newer) and npm; a build of Paceline does not: web/dist/ is committed, and a test compares the sources with the
# ones it was made from (docs/REPORT.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../web"

for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "build_page.sh: no $tool; install nodejs and npm" >&2; exit 1; }
done
npm ci --silent
node build.mjs
# What the page was made from, and the page: tests/process/page/bundle_test.py compares.
find package.json package-lock.json build.mjs src -type f | LC_ALL=C sort | xargs sha256sum >dist/sources.sha256
sha256sum dist/page.html >>dist/sources.sha256
