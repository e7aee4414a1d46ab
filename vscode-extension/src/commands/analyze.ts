/** *Analyze File*, *Analyze Folder*: from the palette, the explorer or an open log. */

import * as vscode from "vscode";

import type { Answer, Shared } from "./shared";
import { tell } from "./told";

const { t } = vscode.l10n;

export function registerAnalyze({ server, findings }: Shared): vscode.Disposable {
  const analyze = async (folder: boolean, given: unknown): Promise<Answer | undefined> => {
    const uri = given instanceof vscode.Uri ? given : await choose(folder);
    if (uri === undefined) {
      return undefined;
    }
    const command = folder ? "necropsy.analyzeFolder" : "necropsy.analyzeFile";
    const answer = await server.ask<Answer>(command, uri.toString());
    await findings.refresh();
    tell(answer);
    return answer;
  };
  return vscode.Disposable.from(
    vscode.commands.registerCommand("necropsy.analyze.file", (uri?: unknown) => analyze(false, uri)),
    vscode.commands.registerCommand("necropsy.analyze.folder", (uri?: unknown) => analyze(true, uri)),
  );
}

/** The open log, else what the user picks. */
async function choose(folder: boolean): Promise<vscode.Uri | undefined> {
  const open = vscode.window.activeTextEditor?.document;
  if (!folder && open?.uri.scheme === "file" && open.languageId !== "python") {
    return open.uri;
  }
  const picked = await vscode.window.showOpenDialog({
    canSelectFiles: !folder,
    canSelectFolders: folder,
    openLabel: t("Analyze"),
    ...(vscode.workspace.workspaceFolders?.[0] && { defaultUri: vscode.workspace.workspaceFolders[0].uri }),
  });
  return picked?.[0];
}
