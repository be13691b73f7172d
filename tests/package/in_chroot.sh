#!/usr/bin/env bash
# Installs a package on a bare Debian of its own and runs README's first example there.
#   tests/package/in_chroot.sh PACKAGE.deb [CHROOT]
#     CHROOT   where that Debian is made, or was by an earlier call (default: a temporary folder, removed at the end)
# As root, with debootstrap and a Debian mirror in reach; in no tier of the tests.
set -euo pipefail
deb=$(realpath "${1:?a package is needed}")
root=${2:-}
if [ -z "$root" ]; then
  root=$(mktemp -d /tmp/paceline-chroot.XXXXXX)
  trap 'rm -rf "$root"' EXIT
fi
# In a process and mount namespace of its own: what is mounted and left running there goes with it.
# shellcheck disable=SC2016 # for the other shell to expand
inside() { unshare --mount --pid --fork --kill-child bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" bash -euc "$1"' "$root" "$1"; }

[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$root"
cp /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/apt/apt.conf.d/*proxy*; do [ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"; done
cp "$deb" "$root/root/paceline.deb"
inside 'export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o Dpkg::Use-Pty=0 update && apt-get -qq -o Dpkg::Use-Pty=0 -y install /root/paceline.deb >/dev/null
cd && rm -rf work && mkdir work && cd work
paceline --version
/usr/share/paceline/scripts/quickstart.sh
grep -q "\"status\": \"ok\"" runs/quickstart/summary.json
paceline report --html quickstart.html runs/quickstart && test -s quickstart.html
python3 -c "import paceline; print(\"the Python package:\", paceline.version()); print(sorted(paceline.read_model(\"runs/quickstart/model.bin\"))[:2])"
test -s /usr/share/man/man1/paceline.1.gz
. /usr/share/bash-completion/completions/paceline
COMP_WORDS=(paceline data syn) COMP_CWORD=2 COMPREPLY=()
_paceline
[ "${COMPREPLY[*]}" = synthesize ]
apt-get -qq -o Dpkg::Use-Pty=0 -y remove paceline >/dev/null
[ ! -e /usr/bin/paceline ]
echo "installed, run and removed"'
