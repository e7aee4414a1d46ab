/** Every command of the palette: one file each. */

import type * as vscode from "vscode";

import { registerAnalyze } from "./analyze";
import { registerCapture } from "./capture";
import { registerClear } from "./clear";
import type { Shared } from "./shared";
import { registerExplain } from "./explain";
import { registerMenu } from "./menu";
import { registerRestart } from "./restart";
import { registerText } from "./text";

export function registerCommands(shared: Shared): vscode.Disposable[] {
  return [
    registerAnalyze(shared),
    registerText(shared),
    registerCapture(shared),
    registerExplain(shared),
    registerClear(shared),
    registerRestart(shared),
    registerMenu(shared),
  ];
}
