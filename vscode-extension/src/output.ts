/** The output channel *Necropsy*: what the extension did and what the server said. */

import * as vscode from "vscode";

export class Output implements vscode.Disposable {
  /** Made on first use: most sessions never show it. */
  private made: vscode.LogOutputChannel | undefined;

  get channel(): vscode.LogOutputChannel {
    this.made ??= vscode.window.createOutputChannel("Necropsy", { log: true });
    return this.made;
  }

  info(text: string): void {
    this.channel.info(text);
  }

  error(text: string): void {
    this.channel.error(text);
  }

  show(): void {
    this.channel.show(true);
  }

  dispose(): void {
    this.made?.dispose();
  }
}
