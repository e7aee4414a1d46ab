#!/usr/bin/env bash
# usage: tests/editor/vscode.sh BIN [SCREENSHOT]
#
# Builds and packs the extension, then runs it in a real VS Code (code-server) whose PATH finds BIN/python first: tests
# through the API inside the extension host, and a browser that does what a user does from a clean profile. Installs what
# it needs: Debian's chromium and ripgrep, code-server and playwright-core from npm. NECROPSY_EDITOR names a folder to
# keep code-server in between runs. Fails if any of it did not run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$(cd "$1" && pwd)
shot=${2:-}
work=$(mktemp -d)
editor=${NECROPSY_EDITOR:-$work/editor}
most=$((500 * 1024)) # bytes of the bundle

end_tree() { # PID: it and all below it; dropped browsers leave servers behind
  local child
  for child in $(ps -o pid= --ppid "$1"); do end_tree "$child"; done
  kill "$1" 2>/dev/null || true
}
servers=()
tidy() {
  local pid
  for pid in "${servers[@]}"; do end_tree "$pid"; done
  sleep 0.5
  rm -rf "$work"
}
trap tidy EXIT

serving() { # PORT LOG
  for _ in $(seq 600); do
    if node -e "fetch('http://127.0.0.1:$1/').then(r=>process.exit(r.status<500?0:1),()=>process.exit(1))"; then return 0; fi
    sleep 0.2
  done
  cat "$2"
  return 1
}

free_port() { node -e 'const s=require("net").createServer();s.listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }

project() { # FOLDER: two runs, and modules of the user that must not be imported instead of ours
  mkdir -p "$1"
  cp -r "$root/fixtures/editor/vision" "$root/fixtures/editor/pooling" "$1"
  local module
  for module in dataclasses json typing necropsy pygls; do
    echo 'raise SystemExit("a module of the user was imported")' >"$1/$module.py"
  done
  mkdir "$1/parsers" "$1/analyzer"
  touch "$1/parsers/__init__.py" "$1/analyzer/__init__.py"
}

[[ -f $editor/node_modules/code-server/out/node/entry.js ]] ||
  bash "$here/vscode/install.sh" "$editor"

cp -r "$root/vscode-extension" "$work/extension"
rm -rf "$work/extension/node_modules" "$work/extension/out"
cd "$work/extension"
npm ci --silent --ignore-scripts
node node_modules/esbuild/install.js
npm run --silent check
npm run --silent package >"$work/package.txt" 2>&1 || { cat "$work/package.txt"; exit 1; }
node_modules/.bin/esbuild test/host.ts --bundle --platform=node --format=cjs --external:vscode --outfile=out/host.js \
  --log-level=warning
size=$(cat out/extension.js out/client.js | wc -c)
echo "bundle: $size bytes, limit $most; package: $(stat -c %s necropsy.vsix) bytes"
((size <= most))

cp -r "$here/vscode" "$work/drive"
cd "$work/drive"
npm install --silent --no-audit --no-fund

settings() { # FILE: those of a clean profile; a login shell may reset PATH, so the interpreter is named
  mkdir -p "$(dirname "$1")"
  cat >"$1" <<JSON
{
  "necropsy.interpreter": "$bin/python",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "telemetry.telemetryLevel": "off",
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
  "git.enabled": false,
  "editor.minimap.enabled": false
}
JSON
}

serve() { # NAME [VSIX]: code-server on a port of its own, with a profile of its own; the port is in $port
  local name=$1 vsix=${2:-}
  port=$(free_port)
  settings "$work/$name-data/User/settings.json"
  mkdir -p "$work/$name-home"
  printf 'bind-addr: 127.0.0.1:%s\nauth: none\ncert: false\n' "$port" >"$work/$name.yaml"
  local entry=(node "$editor/node_modules/code-server/out/node/entry.js" --config "$work/$name.yaml"
    --user-data-dir "$work/$name-data" --extensions-dir "$work/$name-extensions")
  if [[ -n $vsix ]]; then HOME=$work/$name-home "${entry[@]}" --install-extension "$vsix" >"$work/$name.install" 2>&1; fi
  # A PYTHONPATH that names the project is the worst case: it holds modules with the names of ours.
  HOME=$work/$name-home PYTHONPATH=$work/$name "${entry[@]}" --auth none --disable-telemetry --disable-update-check \
    --disable-workspace-trust --disable-getting-started-override --ignore-last-opened >"$work/$name.log" 2>&1 &
  servers+=($!)
  serving "$port" "$work/$name.log"
}

project "$work/host"
serve host
node host.mjs "$port" "$work/host" "$work/extension" "$work/extension/out/host.js" | tee "$work/host.txt" || true
grep -qE 'TEST [1-9][0-9]* passed, 0 failed' "$work/host.txt"
"$bin/python" -P -m py_compile "$work/host/fixed.py"

project "$work/page"
serve page "$work/extension/necropsy.vsix"
node page.mjs "$port" "$work/page/vision" "$work/shot.png" | tee "$work/page.txt" || true
if [[ -n $shot ]]; then cp "$work"/shot*.png "$shot" 2>/dev/null || cp "$work"/shot*.png "$(dirname "$shot")"; fi
grep -qE '^[1-9][0-9]* checks in VS Code' "$work/page.txt"
