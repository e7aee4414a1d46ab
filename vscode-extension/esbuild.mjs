// Bundles the extension into one file; `out/meta.json` says what is in it. The language client is in it, but its code
// runs only when a server is started: `import()` of a module is a function here.
import { writeFileSync } from "node:fs";
import { build } from "esbuild";

const made = await build({
  entryPoints: ["src/extension.ts"],
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  outfile: "out/extension.js",
  minify: true,
  metafile: true,
  logLevel: "info",
});
writeFileSync("out/meta.json", JSON.stringify(made.metafile));
