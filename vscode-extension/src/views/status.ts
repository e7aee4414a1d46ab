/** The status item: whether the server runs, and how much it knows. */

import * as vscode from "vscode";

import type { Findings } from "../findings";
import { words } from "../guidance";
import type { Server } from "../server";
import { counts, inWords } from "./tally";

const { t } = vscode.l10n;

export function registerStatus(server: Server, findings: Findings): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("necropsy.status", vscode.StatusBarAlignment.Left, 5);
  item.name = "Necropsy";
  item.command = "necropsy.menu";
  const show = (): void => {
    paint(item, server, findings);
    item.show();
  };
  show();
  return vscode.Disposable.from(item, server.onState(show), findings.onChanged(show));
}

function paint(item: vscode.StatusBarItem, server: Server, findings: Findings): void {
  const { state } = server;
  item.backgroundColor = undefined;
  switch (state.kind) {
    case "idle":
    case "starting":
      [item.text, item.tooltip] = ["$(sync~spin) Necropsy", t("Necropsy is starting.")];
      return;
    case "stopped":
      [item.text, item.tooltip] = ["$(circle-slash) Necropsy", t("Necropsy's server is not running.")];
      return;
    case "missing":
      [item.text, item.tooltip] = ["$(alert) Necropsy", words(state.found)];
      item.backgroundColor = new vscode.ThemeColor("statusBarItem.warningBackground");
      return;
    case "failed":
      [item.text, item.tooltip] = ["$(error) Necropsy", t("Necropsy's server did not start: {0}", state.why)];
      item.backgroundColor = new vscode.ThemeColor("statusBarItem.errorBackground");
      return;
    case "running": {
      const total = findings.all.length;
      item.text = total === 0 ? "$(pulse) Necropsy" : `$(pulse) Necropsy ${total}`;
      const known = total === 0 ? t("No findings.") : inWords(findings.all);
      item.tooltip = `${known}\nNecropsy ${state.version}\n${state.python}`;
      if (counts(findings.all).fatal > 0) {
        item.text += " $(flame)";
      }
    }
  }
}
