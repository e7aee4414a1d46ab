// usage: node page.mjs PORT FOLDER SCREENSHOT
//
// What a user sees, from a clean profile: the log is analyzed by command, the planted lines are underlined, Problems and
// the tree list them, a hover tells more, a fix is offered, and an edited line goes stale.
import assert from "node:assert/strict";

import { start, Workbench } from "./browser.mjs";

const [, , port, folder, shot] = process.argv;
const { browser, page } = await start();
const bench = new Workbench(page);
let checks = 0;
const check = (what, true_) => {
  assert.ok(true_, what);
  checks += 1;
  console.log(`ok ${what}`);
};

try {
  await bench.open(port, folder);
  await bench.file("run.log");
  await page.locator(".statusbar-item[aria-label^='pulse Necropsy'], .statusbar-item:has(.codicon-pulse)").first().waitFor();
  check("the server runs", true);
  await bench.command("Necropsy: Analyze File");
  await page.locator(".notification-toast", { hasText: "Necropsy" }).first().waitFor();
  check("the analysis says what it found", (await page.locator(".notification-toast").first().innerText()).includes("5 findings"));
  await bench.command("Notifications: Clear All Notifications");

  await bench.file("train_vision.py");
  const squiggles = ".monaco-editor .squiggly-warning, .monaco-editor .squiggly-error";
  await bench.until("four underlined lines", async () => (await page.locator(squiggles).count()) >= 4);
  check("an error among the underlined lines", (await page.locator(".monaco-editor .squiggly-error").count()) >= 1);
  await page.waitForSelector(".monaco-editor .codelens-decoration a");
  check("a lens above a function", /Necropsy/.test((await page.locator(".monaco-editor .codelens-decoration").allInnerTexts()).join()));

  await page.locator(".activitybar .action-label[aria-label^='Necropsy']").first().click({ force: true }); // the badge lies over it
  const tree = ".pane-body .monaco-list";
  await bench.until("the tree", async () => (await bench.rows(tree)).length >= 5);
  const listed = await bench.rows(tree);
  for (const word of ["CMP008", "CMP002", "CMP003", "CMP004"]) {
    check(`${word} in the tree`, listed.some((row) => row.includes(word)));
  }
  check("the cause leads", listed[1].includes("CMP008"));
  await page.screenshot({ path: shot });

  await page.locator(`${tree} .monaco-list-row`, { hasText: "CMP004" }).first().click();
  await bench.until("the cursor on the line", async () =>
    /Ln 19\b/.test(await page.locator("#status\\.editor\\.selection").innerText()));
  check("a click in the tree leads to the line", true);

  await page.locator(".monaco-editor .view-line span", { hasText: "print" }).last().hover();
  await page.waitForSelector(".monaco-hover:not(.hidden) .hover-contents");
  await bench.until("the hover", async () =>
    (await page.locator(".monaco-hover:not(.hidden)").allInnerTexts()).join(" ").includes("CMP004"));
  check("the hover tells the finding", true);
  await page.keyboard.press("Escape");

  await page.locator(".monaco-editor .view-line", { hasText: "print" }).first().click();
  await page.keyboard.press("Control+.");
  await page.waitForSelector(".action-widget .monaco-list-row");
  const actions = await page.locator(".action-widget .monaco-list-row").allInnerTexts();
  check("actions are offered", actions.some((action) => /ignore|CMP004/i.test(action)));
  await page.keyboard.press("Escape");

  await page.keyboard.press("Control+Shift+M");
  await bench.until("Problems", async () => (await bench.rows(".markers-panel")).filter((row) => /CMP00/.test(row)).length >= 4);
  check("Problems lists them", true);

  await page.locator(".monaco-editor .view-line", { hasText: "print" }).first().click();
  const warnings = page.locator(".monaco-editor .squiggly-warning");
  const before = await warnings.count();
  await page.keyboard.press("End");
  await page.keyboard.type(" or 1");
  await bench.until("staleness", async () => (await warnings.count()) < before);
  check("an edited line goes stale", true);
  const without = await warnings.count(); // of those in view: where the editor has scrolled, others are
  await bench.until("the finding to come back", async () => {
    await page.keyboard.press("Control+Z"); // the browser saves by itself: there is nothing to revert to
    return (await warnings.count()) > without;
  });
  check("and comes back with its text", true);
  console.log(`${checks} checks in VS Code`);
} catch (error) {
  await page.screenshot({ path: shot.replace(".png", "-failed.png") });
  console.log(`FAILED after ${checks} checks: ${error.stack ?? error}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
