#!/usr/bin/env bash
# Packs a build as a Debian package: programs, library, header, Python package, example configurations, the scripts that
# start runs, man pages and completions.
#   scripts/package.sh [--build DIR] [--out DIR]
#     --build DIR   the build to pack, made by scripts/build.sh (default build/release)
#     --out DIR     where to (default DIR/package of the build): paceline_VERSION_ARCHITECTURE.deb
# On the machine that gets it:  apt install ./paceline_VERSION_ARCHITECTURE.deb
# It fits the Debian that it was built on: libraries are named as that one has them.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/arguments.sh

build=build/release out=''
read_arguments "--build folder" "--out folder" -- "$@"
[ -z "$out" ] || [[ $out == /* ]] || out=$here/$out
out=${out:-$PWD/$build/package}
for file in bin/paceline bin/paceline-server bin/paceline-worker lib/libpaceline.so.0 CPackConfig.cmake; do
  [ -e "$build/$file" ] || fail "$build/$file is not there; build it with scripts/build.sh"
done
kind=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt")
[ "$kind" = Release ] || fail "$build is a build of type ${kind:-unknown}, expected Release (scripts/build.sh release)"
for program in cpack dpkg-shlibdeps; do
  command -v "$program" >/dev/null || fail "$program is not there; install cmake and dpkg-dev" 1
done

rm -rf "$build/package/man1" "$build/package/completions"
python3 scripts/lib/help_pages.py "$build/bin" "$build/package"
# Debian wants one; the checkout's history says what changed.
made=$(git log -1 --format=%cD 2>/dev/null) || made=$(date -R)
version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
printf 'paceline (%s) unstable; urgency=medium\n\n  * Built from a checkout%s.\n\n -- The authors of Paceline <paceline@localhost>  %s\n' \
  "$version" "$(git log -1 --format=', %h' 2>/dev/null)" "$made" | gzip -9n >"$build/package/changelog.gz"
mkdir -p "$out"
log=$(mktemp /tmp/paceline-package.XXXXXX)
trap 'rm -f "$log"' EXIT
cpack --config "$build/CPackConfig.cmake" -B "$out" >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
rm -rf "$out/_CPack_Packages"
sed -n 's/^CPack: - package: \(.*\) generated\.$/\1/p' "$log"
