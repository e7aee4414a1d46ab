// What the tests do with a browser: start it, open the workbench, read editors and lists.
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
export const PATIENCE = Number(process.env.NECROPSY_PATIENCE_MS ?? 120_000);

export async function start() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  return { browser, page };
}

export class Workbench {
  constructor(page) {
    this.page = page;
  }

  async open(port, folder) {
    await this.page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(folder)}`, { waitUntil: "domcontentloaded" });
    await this.page.waitForSelector(".explorer-folders-view .monaco-list-row");
  }

  async file(name) {
    await this.page.locator(".explorer-folders-view .monaco-list-row", { hasText: name }).first().dblclick();
    await this.page.waitForSelector(`.tab.active[data-resource-name="${name}"]`);
    await this.page.waitForSelector(".monaco-editor .view-lines");
  }

  /** Runs a command of the palette, which does not learn of commands that come while it is open. */
  async command(title) {
    const row = this.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first();
    await this.until(`the command ${title}`, async () => {
      await this.page.keyboard.press("Escape");
      await this.page.keyboard.press("F1");
      await this.page.locator(".quick-input-widget input.input").fill(`>${title}`);
      return row.waitFor({ timeout: 5000 }).then(() => true, () => false);
    });
    await this.page.keyboard.press("Enter");
  }

  async rows(selector) {
    const texts = await this.page.locator(`${selector} .monaco-list-row`).allInnerTexts();
    return texts.map((text) => text.replace(/\s+/g, " ").trim());
  }

  async until(what, true_) {
    const end = Date.now() + PATIENCE;
    for (;;) {
      const value = await true_();
      if (value) {
        return value;
      }
      if (Date.now() > end) {
        throw new Error(`waited in vain for ${what}`);
      }
      await this.page.waitForTimeout(100);
    }
  }
}
