/**
 * Activation: registers what the user sees and starts the language server when it is first needed.
 *
 * Nothing here waits: the interpreter is looked for, and the language client loaded, after `activate` returned.
 */

import { BEGAN } from "./began";

import * as vscode from "vscode";

import { registerCommands } from "./commands";
import { Findings } from "./findings";
import { Output } from "./output";
import { Server } from "./server";
import { registerHeat } from "./views/heat";
import { registerReport } from "./views/report";
import { registerStatus } from "./views/status";
import { registerTree } from "./views/tree";

/** What tests of the extension, and other extensions, can use. */
export interface Api {
  readonly findings: Findings;
  readonly server: Server;
  /** Milliseconds that loading and activating the extension took. */
  readonly startup: number;
}

export function activate(context: vscode.ExtensionContext): Api {
  const output = new Output();
  const server = new Server(output);
  const findings = new Findings(server);
  context.subscriptions.push(
    output,
    server,
    findings,
    registerStatus(server, findings),
    registerTree(context, findings),
    registerHeat(context, findings),
    registerReport(server),
    ...registerCommands({ context, output, server, findings }),
  );
  server.startSoon();
  return { findings, server, startup: performance.now() - BEGAN };
}

export function deactivate(): void {
  // The subscriptions end the server.
}
