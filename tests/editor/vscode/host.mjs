// usage: node host.mjs PORT WORKSPACE EXTENSION TESTS
//
// Runs TESTS inside the extension host of the VS Code server on PORT, as @vscode/test-web does: the address carries
// what to load, and the page offers the two functions that the tests report through.
import { PATIENCE, start } from "./browser.mjs";

const [, , port, workspace, extension, tests] = process.argv;
const host = `127.0.0.1:${port}`;
const payload = [
  ["extensionDevelopmentPath", `vscode-remote://${host}${extension}`],
  ["extensionTestsPath", `vscode-remote://${host}${tests}`],
];
const { browser, page } = await start();
let done;
const ended = new Promise((resolve) => (done = resolve));
await page.exposeFunction("codeAutomationLog", (_type, said) => {
  for (const text of Array.isArray(said) ? said : [said]) {
    if (String(text).includes("TEST")) {
      console.log(String(text));
    }
  }
});
await page.exposeFunction("codeAutomationExit", (code) => done(code));
const query = `folder=${encodeURIComponent(workspace)}&payload=${encodeURIComponent(JSON.stringify(payload))}`;
await page.goto(`http://${host}/?${query}`);
const late = new Promise((resolve) => setTimeout(() => resolve("timeout"), 4 * PATIENCE).unref());
const code = await Promise.race([ended, late]);
await browser.close();
process.exit(code === 0 ? 0 : 1);
