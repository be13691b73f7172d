#!/usr/bin/env bash
# Packs what a build takes beside compilers, CMake, Ninja and Python, for a machine where nothing can be installed: to
# be run where scripts/install_deps.sh has been, and carried along with the checkout.
# scripts/gpu_check.sh unpacks and uses what is in carried/.
#   scripts/carry_libraries.sh [--programs] [DIR]
#     --programs   the programs that gpu_check.sh runs as well, as this machine's build/release has them, so that
#                  nothing is compiled there (gpu_check.sh --carried-programs)
#     DIR          where to (default carried/): libraries.tar.gz and programs.tar.gz
# Of Boost only what lies in the folders of the headers that are included, so 5 MB instead of 150.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/arguments.sh
. scripts/lib/gpu_programs.sh

programs=''
read_arguments --programs words -- "$@"
[ ${#words[@]} -le 1 ] || fail "two folders: '${words[0]}' and '${words[1]}'"
out=${words[0]:-carried}
work=$(mktemp -d /tmp/paceline-carry.XXXXXX) || fail "cannot create a folder" 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" || fail "cannot create $out" 1
packed() { # FOLDER ARCHIVE: whole or not at all
  tar -C "$1" -czf "$2.new" . && mv "$2.new" "$2"
  echo "carry_libraries: $2: $(du -h "$2" | cut -f 1)"
}

# Boost's and what is linked from a library of its own package come below.
packages=(libzmq3-dev cppzmq-dev libsodium-dev protobuf-compiler libprotobuf-dev libspdlog-dev libfmt-dev libyaml-cpp-dev libcli11-dev
  nlohmann-json3-dev libdnnl-dev libxxhash-dev catch2 librapidcheck-dev pkgconf pkgconf-bin)
dpkg -L "${packages[@]}" | grep -E '^/usr/(include|bin|lib|share/(cmake|pkgconfig))/' | sort -u >"$work/list"
grep -rhoE '#include <boost/[^>]+>' --include='*.h' --include='*.cc' common proto server simulate sweep tests tools worker |
  sort -u | g++ -std=c++20 -x c++ -M - | grep -oE '/usr/include/boost/[^ ]+' | xargs dirname | sort -u |
  xargs -I{} find {} -maxdepth 1 -type f >>"$work/list"
find /usr/lib/x86_64-linux-gnu/cmake -path '*/[Bb]oost*' \( -path '*/boost_headers-*' -o -name 'Boost*' \) -type f >>"$work/list"

# Every file, and the links that lead to it; of a library that is there shared, not the static one.
mkdir "$work/root"
while read -r file; do
  [ -d "$file" ] && [ ! -L "$file" ] && continue
  case "$file" in
    *.a) [ ! -e "${file%.a}.so" ] || continue ;;
  esac
  echo "$file"
done <"$work/list" >"$work/files"
# Shared libraries, all that they need, but not what comes with a C++ compiler.
shared() { ldd "$@" 2>/dev/null | grep -oE '/[^ :]+\.so[^ :]*' | sort -u; }
mapfile -t links < <(grep -E '\.so$|^/usr/bin/(protoc|pkgconf)$' "$work/files")
for library in $({ printf '%s\n' "${links[@]}"; shared "${links[@]}"; } | sort -u); do
  case "${library##*/}" in
    ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so*) ;;
    libstdc++.so* | libgcc_s.so* | libgomp.so*) ;;
    *)
      library=/usr${library#/usr} # /lib is /usr/lib
      echo "$library"
      # Under this name programs look for it.
      readelf -d "$library" | sed -n "s|.*(SONAME).*\[\(.*\)\]|${library%/*}/\1|p"
      while [ -L "$library" ]; do
        library=$(dirname "$library")/$(readlink "$library")
        echo "$library"
      done
      ;;
  esac
done >>"$work/files"
sort -u "$work/files" | sed 's|^/||' | tar -C / -cf - --no-recursion -T - | tar -C "$work/root" -xf -
# Where they lie is known when they are unpacked; and nobody links statically.
find "$work/root" -name '*.pc' -exec sed -i -e '/^Requires.private/d' -e '/^Libs.private/d' {} +
# shellcheck disable=SC2016 # for pkg-config to expand
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../../..|' "$work/root"/usr/lib/x86_64-linux-gnu/pkgconfig/*.pc
packed "$work/root" "$out/libraries.tar.gz"

if [ -n "$programs" ]; then
  for program in "${gpu_programs[@]}"; do
    [ -e "build/release/$program" ] || fail "build/release/$program is not there: cmake --build build/release" 1
    mkdir -p "$work/programs/${program%/*}"
    strip -o "$work/programs/$program" "build/release/$program"
  done
  packed "$work/programs" "$out/programs.tar.gz"
fi
