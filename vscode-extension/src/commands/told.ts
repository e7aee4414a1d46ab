/** The answer of an analysis to a message with the next step. */

import * as vscode from "vscode";

import type { Answer } from "./shared";

const { t } = vscode.l10n;

/** Say what came out; the message is not waited for. */
export function tell(answer: Answer | undefined): void {
  if (answer === undefined) {
    return; // no server: the user has been told
  }
  if (!answer.ok) {
    void vscode.window.showErrorMessage(`Necropsy: ${answer.error ?? ""}`);
    return;
  }
  void offer(answer);
}

async function offer(answer: Answer): Promise<void> {
  const count = answer.findings ?? 0;
  const report = t("Show Report");
  const [issue] = answer.issues ?? [];
  const format = answer.inputs?.[0]?.format;
  const head = count === 0 ? t("Nothing was found.") : count === 1 ? t("1 finding.") : t("{0} findings.", count);
  const rest = answer.first || issue || (count === 0 && format ? t("It was read as {0}.", format) : "");
  const chosen = await vscode.window.showInformationMessage(`Necropsy: ${head} ${rest}`.trim(), ...(count > 0 ? [report] : []));
  if (chosen === report) {
    await vscode.commands.executeCommand("necropsy.showReport");
  }
}
