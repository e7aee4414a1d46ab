/** What to do where Necropsy cannot run: one message with one button that does it. */

import * as vscode from "vscode";

import type { Output } from "./output";
import type { Found } from "./python/find";
import { OLDEST } from "./python/probe";

const { t } = vscode.l10n;

/** Tell the user once; `again` is called after an installation that ended well. */
export async function guide(found: Found, output: Output, again: () => void): Promise<void> {
  const { probe } = found;
  const message = words(found);
  output.info(message);
  const install = t("Install");
  const choose = t("Choose Interpreter");
  if (probe.kind !== "no-necropsy" && probe.kind !== "no-lsp" && probe.kind !== "too-old") {
    const chosen = await vscode.window.showWarningMessage(message, choose);
    return chosen === choose ? chooseInterpreter() : undefined;
  }
  const chosen = await vscode.window.showWarningMessage(message, install, choose);
  if (chosen === install) {
    await installInto(probe.executable, again);
  } else if (chosen === choose) {
    await chooseInterpreter();
  }
}

/** One sentence: what is wrong with which Python. */
export function words({ candidate, probe }: Found): string {
  switch (probe.kind) {
    case "no-necropsy":
      return t("Necropsy is not installed in {0}.", probe.executable);
    case "no-lsp":
      return t("Necropsy in {0} lacks its editor support.", probe.executable);
    case "too-old":
      return t("Necropsy {0} in {1} is too old for this extension, which needs {2}.", probe.version, probe.executable, OLDEST);
    case "old-python":
      return t("{0} is Python {1}; Necropsy needs 3.11 or newer.", probe.executable, probe.version);
    case "broken":
      return t("{0} could not be asked what it has installed: {1}", probe.executable, probe.why);
    default:
      return t("No Python was found at {0}; Necropsy needs 3.11 or newer.", candidate.path);
  }
}

/** A task in a terminal, so that the user sees what pip does. Never run in an untrusted workspace. */
async function installInto(python: string, again: () => void): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    void vscode.window.showWarningMessage(t("Trust this workspace first: nothing is installed from an untrusted one."));
    return;
  }
  const args = ["-m", "pip", "install", "--upgrade", "necropsy[lsp]"];
  const task = new vscode.Task(
    { type: "necropsy", task: "install" },
    vscode.TaskScope.Workspace,
    t("Install Necropsy"),
    "necropsy",
    new vscode.ProcessExecution(python, args),
  );
  const execution = await vscode.tasks.executeTask(task);
  const listener = vscode.tasks.onDidEndTaskProcess((event) => {
    if (event.execution === execution) {
      listener.dispose();
      if (event.exitCode === 0) {
        again();
      }
    }
  });
}

async function chooseInterpreter(): Promise<void> {
  const known = vscode.extensions.getExtension("ms-python.python") !== undefined;
  const [command, argument] = known
    ? ["python.setInterpreter", undefined]
    : ["workbench.action.openSettings", "necropsy.interpreter"];
  await vscode.commands.executeCommand(command, argument);
}
