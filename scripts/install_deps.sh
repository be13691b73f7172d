#!/usr/bin/env bash
# Installs what Paceline needs to build, run and test, as Debian packages. Does nothing when all is there.
#   scripts/install_deps.sh [--browser] [--etcd] [--plots] [--python] [--slurm] [--spark] [--check]
#     --browser   what only a test needs, too: Chromium, in which the page of `paceline report --html` is looked at
#     --etcd      what only a test needs, too: etcd, which decides who serves a shard. Debian's package starts a server
#                 of
#                 its own, on ports 2379 and 2380 of this machine alone; the test does not use that one
#     --plots     what scripts/plot_run.py needs, too: pandas and matplotlib; and Pillow, with which
#                 scripts/make_screenshots.sh packs its pictures
#     --python    what only tests need, too: PyTorch, JAX, ONNX and the like, as tests/requirements.txt has them, in an
#                 environment
#                 of Python's, build/python; and protobuf for Python
#     --slurm     what only a test needs, too: Slurm, of which the test starts one of its own, as its user
#     --spark     what only a test needs, too: Java, for Spark, which is among those of --python
#     --check     only names what is missing (exit 1 when something is)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check='' environment='' browser=() etcd=() plots=() python=() slurm=() spark=()
for option in "$@"; do
  case "$option" in
    --browser) browser=(chromium chromium-driver) ;;
    --etcd) etcd=(etcd-server) ;;
    --plots) plots=(python3-pandas python3-matplotlib python3-pil) ;;
    --python) environment=build/python python=(python3-venv python3-protobuf) ;;
    --slurm) slurm=(slurmctld slurmd slurm-client munge) ;;
    --spark) spark=(default-jre-headless) ;;
    --check) check=1 ;;
    *) echo "install_deps: unknown option '$option', expected --browser, --etcd, --plots, --python, --slurm, --spark or --check" >&2; exit 2 ;;
  esac
done

packages=(
  # tool chain
  g++ cmake ninja-build mold pkgconf ccache git
  # libraries: transport, encryption between nodes, headers on the wire, event loop, log, YAML, command line, JSON, CPU
  # kernels, checksums, pictures
  libzmq3-dev cppzmq-dev libsodium-dev protobuf-compiler libprotobuf-dev libboost-dev libspdlog-dev libyaml-cpp-dev libcli11-dev
  nlohmann-json3-dev libdnnl-dev libxxhash-dev libjpeg-dev libpng-dev
  # tests
  catch2 librapidcheck-dev python3 python3-numpy
  # benchmarks
  libbenchmark-dev
  # scripts: setpriv, namespaces for the byte-count test
  util-linux iproute2 procps
  "${browser[@]}" "${etcd[@]}" "${plots[@]}" "${python[@]}" "${slurm[@]}" "${spark[@]}"
)

missing=() lacking=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ -n "$environment" ] && ! cmp -s tests/requirements.txt "$environment/requirements.txt"; then
  lacking=(tests/requirements.txt)
fi
both=("${missing[@]}" "${lacking[@]}")
if [ ${#both[@]} -eq 0 ]; then
  echo "install_deps: everything is installed"
  exit 0
fi
if [ -n "$check" ]; then
  echo "install_deps: missing: ${both[*]}" >&2
  exit 1
fi
install_packages() {
  if ! command -v apt-get >/dev/null; then
    echo "install_deps: this is not a Debian system (no apt-get); install the equivalents of: ${missing[*]}" >&2
    exit 1
  fi

  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "install_deps: run as root or install sudo, to install: ${missing[*]}" >&2; exit 1; }
    # What sudo runs is root's: of a Ctrl-C it hears what the terminal sends, not what the user's processes send on. A
    # script that runs this one in the background has it ignore that.
    as_root=(env "--default-signal=INT,QUIT" sudo)
  fi
  echo "install_deps: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# From the index that pip is set up with, or else from PyTorch's own, which has it without CUDA: a tenth of the size.
install_environment() {
  local pip=$environment/bin/pip
  echo "install_deps: installing tests/requirements.txt into $environment"
  python3 -m venv --clear "$environment"
  "$pip" install -q -r tests/requirements.txt ||
    "$pip" install -q -r tests/requirements.txt --extra-index-url https://download.pytorch.org/whl/cpu
  cp tests/requirements.txt "$environment"
}

[ ${#missing[@]} -eq 0 ] || install_packages
[ ${#lacking[@]} -eq 0 ] || install_environment
