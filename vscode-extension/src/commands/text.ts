/** *Analyze Clipboard*, *Analyze Terminal Selection*: text that is in no file, in a document of its own. */

import * as vscode from "vscode";

import type { Answer, Shared } from "./shared";
import { tell } from "./told";

const { t } = vscode.l10n;

export function registerText({ server, findings }: Shared): vscode.Disposable {
  const analyze = async (text: string, nothing: string): Promise<Answer | undefined> => {
    if (text.trim() === "") {
      void vscode.window.showInformationMessage(nothing);
      return undefined;
    }
    if ((await server.ready()) === undefined) {
      return undefined;
    }
    // Opened beside the script: the findings of the log stand on its lines too.
    const document = await vscode.workspace.openTextDocument({ language: "log", content: text });
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
    const answer = await server.ask<Answer>("necropsy.analyzeDocument", document.uri.toString());
    await findings.refresh();
    tell(answer);
    return answer;
  };
  return vscode.Disposable.from(
    vscode.commands.registerCommand("necropsy.analyze.clipboard", async () =>
      analyze(await vscode.env.clipboard.readText(), t("The clipboard holds no text.")),
    ),
    vscode.commands.registerCommand("necropsy.analyze.terminalSelection", async () =>
      analyze(await selectionOfTerminal(), t("Nothing is selected in the terminal.")),
    ),
  );
}

/** VS Code gives no other way to it than through the clipboard, which gets its text back. */
async function selectionOfTerminal(): Promise<string> {
  const before = await vscode.env.clipboard.readText();
  await vscode.env.clipboard.writeText("");
  await vscode.commands.executeCommand("workbench.action.terminal.copySelection");
  const selected = await vscode.env.clipboard.readText();
  await vscode.env.clipboard.writeText(before);
  return selected;
}
