// Bundles the extension: `out/extension.js`, which VS Code loads at the start, and `out/client.js` with the language
// client, twenty times as large, which is loaded when a server is started. `out/meta.json` says what is in them.
import { writeFileSync } from "node:fs";
import { build } from "esbuild";

const clientApart = {
  name: "client-apart",
  setup(bundle) {
    bundle.onResolve({ filter: /^\.\/client$/ }, () => ({ path: "./client.js", external: true }));
  },
};
const made = await build({
  entryPoints: ["src/extension.ts", "src/client.ts"],
  plugins: [clientApart],
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  supported: { "dynamic-import": false }, // `require` instead: the extension host gives `vscode` to that alone
  external: ["vscode"],
  outdir: "out",
  minify: true,
  metafile: true,
  logLevel: "info",
});
writeFileSync("out/meta.json", JSON.stringify(made.metafile));
