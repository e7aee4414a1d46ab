/** A Python that can serve to a connected language client. Loaded when a server is started, not before. */

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

import type { Output } from "./output";
import { safeEnvironment } from "./python/environment";

const CHANGED = "necropsy/findingsChanged";

/** Raises what the start of the server fails with. */
export async function connect(python: string, output: Output, changed: () => void): Promise<LanguageClient> {
  const executable = { command: python, args: ["-P", "-m", "necropsy_lsp"], options: { env: safeEnvironment() } };
  const server: ServerOptions = { run: executable, debug: executable };
  const options: LanguageClientOptions = {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "file", language: "log" },
      { scheme: "file", pattern: "**/*.{log,out,err}" },
      { scheme: "untitled", language: "python" },
      { scheme: "untitled", language: "log" },
      { scheme: "untitled", language: "plaintext" },
    ],
    outputChannel: output.channel,
    diagnosticPullOptions: { onChange: true, onSave: true },
    initializationOptions: vscode.workspace.getConfiguration("necropsy"),
  };
  const client = new LanguageClient("necropsy", "Necropsy", server, options);
  client.registerFeature({
    fillClientCapabilities: (capabilities) => {
      capabilities.experimental = { ...(capabilities.experimental as object | undefined), necropsy: true };
    },
    initialize: () => undefined,
    getState: () => ({ kind: "static" }),
    clear: () => undefined,
  });
  client.onNotification(CHANGED, changed);
  await client.start();
  return client;
}
