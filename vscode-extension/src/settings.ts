/** The settings `necropsy.*` that the extension itself reads; the server asks for the others. */

import * as vscode from "vscode";

const SECTION = "necropsy";

/** The interpreter that the user named, with `~` and `${workspaceFolder}` replaced; undefined where none was. */
export function interpreter(): string | undefined {
  const value = configuration().get<string>("interpreter", "").trim();
  return value === "" ? undefined : expanded(value);
}

/** Whether lines are marked in the gutter by what they cost. */
export function heat(): boolean {
  return configuration().get<boolean>("heat", true);
}

/** Whether a setting changed after which the server must be started anew. */
export function restartsServer(event: vscode.ConfigurationChangeEvent): boolean {
  return event.affectsConfiguration(`${SECTION}.interpreter`);
}

export function affectsHeat(event: vscode.ConfigurationChangeEvent): boolean {
  return event.affectsConfiguration(`${SECTION}.heat`);
}

function configuration(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration(SECTION);
}

function expanded(text: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const home = process.env["HOME"] ?? process.env["USERPROFILE"] ?? "";
  return text.replace(/^~(?=[/\\])/, home).replaceAll("${workspaceFolder}", folder);
}
