#!/usr/bin/env bash
# usage: install.sh DIR
#
# Puts code-server 4.100.3 (VS Code 1.100.3, the last line that runs on Node 20) into DIR, and chromium and ripgrep on
# the machine where they are missing. A plain `npm install` of it compiles what is not used and downloads the rest from
# where nothing can be reached: so without scripts, and then the four addons that VS Code's server loads.
set -euo pipefail
dir=$1
mkdir -p "$dir"
cd "$dir"
missing=()
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
command -v rg >/dev/null || missing+=(ripgrep)
if ((${#missing[@]})); then
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
[[ -f package.json ]] || echo '{"name":"editor","private":true}' >package.json
export npm_config_nodedir=/usr npm_config_yes=true npm_config_audit=false npm_config_fund=false
npm install --silent --ignore-scripts code-server@4.100.3 >install.log 2>&1 || { cat install.log; exit 1; }
{
  npm_config_build_from_source=true npm rebuild --foreground-scripts argon2
  cd node_modules/code-server/lib/vscode
  npm install --silent --ignore-scripts --omit=dev
  npm rebuild --foreground-scripts @vscode/spdlog native-watchdog node-pty
  mkdir -p node_modules/@vscode/ripgrep/bin
  ln -sfn "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
  ln -sfn node_modules node_modules.asar
  node -e 'for (const m of ["node-pty","@vscode/spdlog","native-watchdog","@parcel/watcher"]) require(m)'
} >"$dir/rebuild.log" 2>&1 || { tail -n 60 "$dir/rebuild.log"; exit 1; }
