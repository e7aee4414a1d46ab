/** *Restart Server*, *Show Output*. */

import * as vscode from "vscode";

import type { Shared } from "./shared";

export function registerRestart({ server, output }: Shared): vscode.Disposable {
  return vscode.Disposable.from(
    vscode.commands.registerCommand("necropsy.restart", () => server.restart()),
    vscode.commands.registerCommand("necropsy.showOutput", () => output.show()),
  );
}
