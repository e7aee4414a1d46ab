/** What a click on the status item offers. */

import * as vscode from "vscode";

import { guide } from "../guidance";
import type { Shared } from "./shared";

const { t } = vscode.l10n;

export function registerMenu({ server, output }: Shared): vscode.Disposable {
  return vscode.commands.registerCommand("necropsy.menu", async () => {
    if (server.state.kind === "missing") {
      await guide(server.state.found, output, () => void server.restart());
      return;
    }
    const items = [
      { label: `$(list-tree) ${t("Show Findings")}`, command: "necropsy.findings.focus" },
      { label: `$(book) ${t("Show Report")}`, command: "necropsy.showReport" },
      { label: `$(search) ${t("Analyze File…")}`, command: "necropsy.analyze.file" },
      { label: `$(record) ${t("Capture a Run…")}`, command: "necropsy.capture.run" },
      { label: `$(question) ${t("Explain Rule…")}`, command: "necropsy.explain.rule" },
      { label: `$(output) ${t("Show Output")}`, command: "necropsy.showOutput" },
      { label: `$(refresh) ${t("Restart Server")}`, command: "necropsy.restart" },
    ];
    const chosen = await vscode.window.showQuickPick(items, { title: "Necropsy" });
    if (chosen !== undefined) {
      await vscode.commands.executeCommand(chosen.command);
    }
  });
}
