/** *Clear Findings*: forget what was analyzed here; what stored reports say goes with them, if the user wants that. */

import * as vscode from "vscode";

import type { Shared } from "./shared";

const { t } = vscode.l10n;

export function registerClear({ server, findings }: Shared): vscode.Disposable {
  return vscode.commands.registerCommand("necropsy.clear.all", async () => {
    await server.ask("necropsy.clear");
    await findings.refresh();
    if (findings.all.length > 0) {
      await offerStored();
      await findings.refresh();
    }
  });
}

async function offerStored(): Promise<void> {
  const reports = await vscode.workspace.findFiles("**/.necropsy/*.json", null, 200);
  if (reports.length === 0) {
    return;
  }
  const away = t("Move to Trash");
  const question =
    reports.length === 1
      ? t("The findings that are left come from a stored report, {0}.", vscode.workspace.asRelativePath(reports[0] as vscode.Uri))
      : t("The findings that are left come from {0} stored reports in .necropsy.", reports.length);
  if ((await vscode.window.showInformationMessage(question, away)) === away) {
    await Promise.all(reports.map((report) => vscode.workspace.fs.delete(report, { useTrash: true })));
  }
}
