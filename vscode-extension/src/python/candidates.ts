/** Where a Python may be, the likeliest first: the setting, the Python extension's environment, PATH. */

import * as vscode from "vscode";

import { interpreter } from "../settings";

export interface Candidate {
  readonly path: string;
  /** Who named it. */
  readonly from: "setting" | "python-extension" | "path";
}

/** The part that is used of the API of `ms-python.python`. */
interface PythonExtension {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(path: {
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath?: vscode.Event<unknown>;
  };
}

const EXTENSION = "ms-python.python";

export async function candidates(): Promise<Candidate[]> {
  const named = interpreter();
  if (named !== undefined) {
    return [{ path: named, from: "setting" }]; // what the user named is used or complained about, never replaced
  }
  const found: Candidate[] = [];
  const environment = await ofPythonExtension();
  if (environment !== undefined) {
    found.push({ path: environment, from: "python-extension" });
  }
  const names = process.platform === "win32" ? ["python", "py"] : ["python3", "python"];
  return [...found, ...names.map((path): Candidate => ({ path, from: "path" }))];
}

/** Calls back when the Python extension has another environment. */
export async function onEnvironmentChanged(callback: () => void): Promise<vscode.Disposable | undefined> {
  const api = await pythonExtension();
  return api?.environments?.onDidChangeActiveEnvironmentPath?.(callback);
}

async function ofPythonExtension(): Promise<string | undefined> {
  const environments = (await pythonExtension())?.environments;
  if (environments === undefined) {
    return undefined;
  }
  const resource = vscode.workspace.workspaceFolders?.[0]?.uri;
  const active = environments.getActiveEnvironmentPath(resource);
  return (await environments.resolveEnvironment(active))?.executable.uri?.fsPath;
}

async function pythonExtension(): Promise<PythonExtension | undefined> {
  // Its environment may come from settings of the workspace: in an untrusted one it is not asked.
  const extension = vscode.workspace.isTrusted ? vscode.extensions.getExtension<PythonExtension>(EXTENSION) : undefined;
  try {
    return await extension?.activate();
  } catch {
    return undefined;
  }
}
