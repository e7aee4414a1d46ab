/**
 * Runs inside the extension host of a real VS Code, through its API: see `tests/editor/vscode.sh`.
 *
 * The workspace holds `vision/` (four planted lines), `pooling/` (a fix that is an edit) and, at its root, modules of
 * the user that have names of ours and of the standard library.
 */

import * as assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";

import type { Api } from "../src/extension";
import { lines } from "../src/views/heat";
import type { Finding } from "../src/findings";

const PATIENCE_MS = Number(process.env["NECROPSY_PATIENCE_MS"] ?? 120_000);
const PLANTED = [14, 16, 18, 23];
const KNOWN = PLANTED.length + 1; // and a note: the float that `.item()` gives recompiles too
const root = (): string => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";

const TESTS: Record<string, () => Promise<void>> = {
  "activating waits for nothing": async () => {
    const began = performance.now();
    const { server, startup } = await extension().activate();
    const whole = performance.now() - began; // with what VS Code does around it
    console.log(`TEST the extension's own start took ${startup.toFixed(1)} ms of ${whole.toFixed(1)} ms`);
    assert.ok(["idle", "starting"].includes(server.state.kind), server.state.kind);
  },
  "the server runs in spite of the user's own modules": async () => {
    const { server } = await api();
    await until("the server", () => server.state.kind === "running");
  },
  "every command is there": async () => {
    const known = new Set(await vscode.commands.getCommands(true));
    const { contributes } = extension().packageJSON as { contributes: { commands: { command: string }[] } };
    for (const { command } of contributes.commands) {
      assert.ok(known.has(command), command);
    }
  },
  "a log's findings stand on the planted lines": async () => {
    const { findings } = await api();
    const script = await open("vision/train_vision.py");
    await vscode.commands.executeCommand("necropsy.analyze.file", uri("vision/run.log"));
    const found = await until("diagnostics", () => own(script, KNOWN));
    const worse = found.filter((d) => d.severity <= vscode.DiagnosticSeverity.Warning);
    assert.deepEqual(worse.map((d) => d.range.start.line).sort((a, b) => a - b), PLANTED);
    const messages = found.map((d) => d.message).join("\n");
    for (const word of ["self.calls", "branches on a tensor", "print", "item"]) {
      assert.ok(messages.includes(word), `${word} in ${messages}`);
    }
    assert.equal(findings.all.length, KNOWN);
    assert.ok(findings.all.every((finding) => finding.uri !== "" && !finding.stale));
  },
  "hover, lens and page": async () => {
    const script = await open("vision/train_vision.py");
    const at = new vscode.Position(PLANTED[1] ?? 0, 12);
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", script.uri, at);
    const text = hovers.flatMap((h) => h.contents.map((c) => (typeof c === "string" ? c : c.value))).join("\n");
    assert.match(text, /CMP002/);
    const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", script.uri, 9);
    assert.ok(lenses.some((lens) => lens.command?.title.includes("Necropsy")), JSON.stringify(lenses));
    const { server } = await api();
    const report = await server.ask<string>("necropsy.report");
    assert.match(report ?? "", /CMP008/);
  },
  "an edited line goes stale and comes back": async () => {
    const script = await open("vision/train_vision.py");
    const line = PLANTED[1] ?? 0;
    const before = script.lineAt(line).text;
    await replace(script, line, "        if bool((y > 1).any()):");
    await until("staleness", () => own(script).find((d) => d.message.startsWith("The run saw") || /run saw/i.test(d.message)));
    await replace(script, line, before);
    await until("the finding", () => own(script).find((d) => d.range.start.line === line && !/run saw/i.test(d.message)));
    await insert(script, "# one line more\n");
    await until("the move", () => own(script).find((d) => d.range.start.line === line + 1));
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },
  "a quick fix leaves valid Python": async () => {
    const script = await open("pooling/train.py");
    await vscode.commands.executeCommand("necropsy.analyze.file", uri("pooling/run.log"));
    const found = await until("diagnostics", () => own(script, 1));
    const actions = (
      await Promise.all(
        found.map((d) => vscode.commands.executeCommand<vscode.CodeAction[]>("vscode.executeCodeActionProvider", script.uri, d.range)),
      )
    ).flat();
    const fix = actions.find((action) => /set_to_none=True/.test(action.title) && action.edit !== undefined);
    assert.ok(fix?.edit, actions.map((action) => action.title).join(", "));
    assert.ok(await vscode.workspace.applyEdit(fix.edit));
    assert.match(script.getText(), /zero_grad\(set_to_none=True\)/);
    fs.writeFileSync(path.join(root(), "fixed.py"), script.getText()); // the caller compiles it
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },
  "text of the clipboard is analyzed": async () => {
    const { findings } = await api();
    await vscode.commands.executeCommand("necropsy.clear.all");
    await until("no findings", () => findings.all.length === 0);
    const log = fs.readFileSync(path.join(root(), "vision/run.log"), "utf8");
    await vscode.env.clipboard.writeText(log);
    await vscode.commands.executeCommand("necropsy.analyze.clipboard");
    await until("findings", () => findings.all.length === KNOWN);
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  },
  "the hottest lines are marked so": async () => {
    const cost = (line: number, share: number): Finding =>
      ({ line, share, stale: false }) as unknown as Finding;
    assert.deepEqual(lines([cost(1, 0.01), cost(2, 0.2), cost(3, 0.2), cost(3, 0.2)]), [[1], [], [2], [3]]);
  },
  "the server can be restarted": async () => {
    const { server, findings } = await api();
    await vscode.commands.executeCommand("necropsy.restart");
    await until("the server", () => server.state.kind === "running");
    await vscode.commands.executeCommand("necropsy.clear.all");
    await until("no findings", () => findings.all.length === 0);
  },
  "a Python without Necropsy is said, not used": async () => {
    const { server } = await api();
    const settings = vscode.workspace.getConfiguration("necropsy");
    const before = settings.get<string>("interpreter");
    await settings.update("interpreter", "/usr/bin/env-without-python", vscode.ConfigurationTarget.Global);
    await until("the complaint", () => server.state.kind === "missing");
    await settings.update("interpreter", before, vscode.ConfigurationTarget.Global);
    await until("the server", () => server.state.kind === "running");
  },
};

export async function run(): Promise<void> {
  const failed: string[] = [];
  for (const [name, test] of Object.entries(TESTS)) {
    const began = Date.now();
    try {
      await test();
      console.log(`TEST ok ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed.push(name);
      console.log(`TEST FAILED ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }
  const passed = Object.keys(TESTS).length - failed.length;
  console.log(`TEST ${passed} passed, ${failed.length} failed`);
  fs.writeFileSync(path.join(root(), "host.json"), JSON.stringify({ passed, failed }));
  assert.deepEqual(failed, []);
}

function extension(): vscode.Extension<Api> {
  const found = vscode.extensions.getExtension<Api>("necropsy.necropsy");
  assert.ok(found, "the extension is there");
  return found;
}

function api(): Thenable<Api> {
  return extension().activate();
}

function uri(name: string): vscode.Uri {
  return vscode.Uri.file(path.join(root(), name));
}

async function open(name: string): Promise<vscode.TextDocument> {
  const document = await vscode.workspace.openTextDocument(uri(name));
  await vscode.window.showTextDocument(document, { preview: false });
  return document;
}

function own(document: vscode.TextDocument): vscode.Diagnostic[];
function own(document: vscode.TextDocument, least: number): vscode.Diagnostic[] | undefined;
function own(document: vscode.TextDocument, least = 0): vscode.Diagnostic[] | undefined {
  const found = vscode.languages.getDiagnostics(document.uri).filter((d) => /necropsy/i.test(d.source ?? ""));
  return found.length >= least ? found : undefined;
}

async function replace(document: vscode.TextDocument, line: number, text: string): Promise<void> {
  const edit = new vscode.WorkspaceEdit();
  edit.replace(document.uri, document.lineAt(line).range, text);
  await vscode.workspace.applyEdit(edit);
}

async function insert(document: vscode.TextDocument, text: string): Promise<void> {
  const edit = new vscode.WorkspaceEdit();
  edit.insert(document.uri, new vscode.Position(0, 0), text);
  await vscode.workspace.applyEdit(edit);
}

async function until<T>(what: string, true_: () => T | undefined | false): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = true_();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited in vain for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
