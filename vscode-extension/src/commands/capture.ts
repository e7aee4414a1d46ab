/** *Capture a Run…*: `necropsy capture` as a task in a terminal, with the user's own command. */

import * as path from "node:path";
import * as vscode from "vscode";

import type { Shared } from "./shared";

const { t } = vscode.l10n;
const KEPT = "necropsy.captured";

export function registerCapture({ context, server }: Shared): vscode.Disposable {
  return vscode.commands.registerCommand("necropsy.capture.run", async () => {
    if (!vscode.workspace.isTrusted) {
      void vscode.window.showWarningMessage(t("Trust this workspace first: nothing is run in an untrusted one."));
      return;
    }
    await server.ready();
    if (server.state.kind !== "running") {
      return; // the user has been told what is missing
    }
    const command = await askCommand(context.workspaceState);
    const why = command === undefined ? undefined : await askWhy();
    if (command !== undefined && why !== undefined) {
      await context.workspaceState.update(KEPT, command);
      await vscode.tasks.executeTask(task(server.state.python, why, command));
    }
  });
}

/** The task; what the user typed stays as it is, since it may use the shell's own ways. */
export function task(python: string, why: string, command: string): vscode.Task {
  const question = why === "" ? "" : ` --why ${why}`;
  const line = `${quoted(python)} -P -m necropsy capture --save${question} -- ${command}`;
  const made = new vscode.Task(
    { type: "necropsy", task: "capture" },
    vscode.TaskScope.Workspace,
    t("Capture a Run"),
    "necropsy",
    new vscode.ShellExecution(line),
  );
  made.presentationOptions = { reveal: vscode.TaskRevealKind.Always, panel: vscode.TaskPanelKind.Dedicated, clear: true };
  return made;
}

function quoted(program: string): string {
  if (process.platform === "win32") {
    return `& "${program}"`;
  }
  return /^[\w@%+=:,./-]+$/.test(program) ? program : `'${program.replaceAll("'", `'\\''`)}'`;
}

async function askCommand(memory: vscode.Memento): Promise<string | undefined> {
  const open = vscode.window.activeTextEditor?.document;
  const script = open?.languageId === "python" && open.uri.scheme === "file" ? open.uri : undefined;
  const fallback = script === undefined ? "python train.py" : `python ${quoted(relative(script))}`;
  return vscode.window.showInputBox({
    title: t("Capture a Run"),
    prompt: t("The command that starts the job, as in a terminal"),
    value: memory.get<string>(KEPT, fallback),
    ignoreFocusOut: true,
    validateInput: (value) => (value.trim() === "" ? t("Give a command, such as python train.py") : undefined),
  });
}

function relative(script: vscode.Uri): string {
  const folder = vscode.workspace.getWorkspaceFolder(script);
  return folder === undefined ? script.fsPath : path.relative(folder.uri.fsPath, script.fsPath);
}

async function askWhy(): Promise<string | undefined> {
  const items = [
    { label: t("It is slow"), why: "slow" },
    { label: t("It crashes or hangs"), why: "crash" },
    { label: t("Compiling takes long or breaks"), why: "compile" },
    { label: t("It runs out of memory"), why: "memory" },
    { label: t("TensorRT builds an engine"), why: "tensorrt" },
    { label: t("Its kernels are slow (runs it twice, under ncu)"), why: "kernels" },
  ];
  return (await vscode.window.showQuickPick(items, { title: t("What is the question?"), ignoreFocusOut: true }))?.why;
}
