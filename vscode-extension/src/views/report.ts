/** *Show Report*: everything that the server knows, as a Markdown page. */

import * as vscode from "vscode";

import type { Server } from "../server";

const SCHEME = "necropsy-report";
const REPORT = vscode.Uri.parse(`${SCHEME}:Necropsy.md`);

export function registerReport(server: Server): vscode.Disposable {
  const changed = new vscode.EventEmitter<vscode.Uri>();
  const provider: vscode.TextDocumentContentProvider = {
    onDidChange: changed.event,
    provideTextDocumentContent: async () => (await server.ask<string>("necropsy.report")) ?? "",
  };
  return vscode.Disposable.from(
    changed,
    server.onFindings(() => changed.fire(REPORT)),
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, provider),
    vscode.commands.registerCommand("necropsy.showReport", () => show(server)),
  );
}

async function show(server: Server): Promise<void> {
  if ((await server.ready()) !== undefined) {
    await vscode.commands.executeCommand("markdown.showPreview", REPORT);
  }
}
