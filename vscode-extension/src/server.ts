/** The language server's life: found, started, restarted, ended; its state for the status item. */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

import { guide } from "./guidance";
import type { Output } from "./output";
import { onEnvironmentChanged } from "./python/candidates";
import { type Found, findPython } from "./python/find";
import { restartsServer } from "./settings";

export type State =
  | { readonly kind: "idle" | "starting" | "stopped" }
  | { readonly kind: "running"; readonly python: string; readonly version: string }
  | { readonly kind: "missing"; readonly found: Found }
  | { readonly kind: "failed"; readonly why: string };

export class Server implements vscode.Disposable {
  private readonly changedState = new vscode.EventEmitter<State>();
  private readonly toldFindings = new vscode.EventEmitter<void>();
  private readonly listeners: vscode.Disposable[] = [];
  private client: LanguageClient | undefined;
  private starting: Promise<LanguageClient | undefined> | undefined;
  private current: State = { kind: "idle" };

  readonly onState = this.changedState.event;
  /** The server knows other findings than before. */
  readonly onFindings = this.toldFindings.event;

  constructor(private readonly output: Output) {
    this.listeners.push(
      vscode.workspace.onDidChangeConfiguration((event) => restartsServer(event) && void this.restart()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => void this.restart()),
    );
  }

  get state(): State {
    return this.current;
  }

  /** Start without anybody waiting for it. */
  startSoon(): void {
    setImmediate(() => {
      void this.ready();
      void onEnvironmentChanged(() => void this.restart()).then((d) => d && this.listeners.push(d));
    });
  }

  /** The running client; undefined where none can be started, which the user has then been told. */
  ready(): Promise<LanguageClient | undefined> {
    if (this.client?.isRunning()) {
      return Promise.resolve(this.client);
    }
    this.starting ??= this.start().finally(() => {
      this.starting = undefined;
    });
    return this.starting;
  }

  async restart(): Promise<void> {
    await this.starting;
    await this.stop();
    await this.ready();
  }

  /** The answer of a command of the server. */
  async ask<T>(command: string, ...args: unknown[]): Promise<T | undefined> {
    const client = await this.ready();
    return client?.sendRequest<T>("workspace/executeCommand", { command, arguments: args });
  }

  private async start(): Promise<LanguageClient | undefined> {
    this.become({ kind: "starting" });
    const found = await findPython();
    const { probe } = found;
    if (probe.kind !== "usable") {
      this.become({ kind: "missing", found });
      void guide(found, this.output, () => void this.restart());
      return undefined;
    }
    this.output.info(`Necropsy ${probe.version} of ${probe.executable} (${found.candidate.from})`);
    try {
      // Loaded here and not at the start: reading the client's code takes longer than all the rest of `activate`.
      const { connect } = await import("./client");
      const client = await connect(probe.executable, this.output, () => this.toldFindings.fire());
      client.onDidChangeState(() => this.client === client && !client.isRunning() && this.become({ kind: "stopped" }));
      this.client = client;
    } catch (error) {
      return this.failed(error);
    }
    this.become({ kind: "running", python: probe.executable, version: probe.version });
    this.toldFindings.fire();
    return this.client;
  }

  private failed(error: unknown): undefined {
    const why = error instanceof Error ? error.message : String(error);
    this.output.error(error instanceof Error ? (error.stack ?? why) : why);
    this.become({ kind: "failed", why });
    return undefined;
  }

  private async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose();
    } catch (error) {
      this.output.error(`The server did not end properly: ${String(error)}`); // it is gone all the same
    }
    this.become({ kind: "stopped" });
  }

  private become(state: State): void {
    this.current = state;
    this.changedState.fire(state);
  }

  dispose(): void {
    void this.stop();
    for (const listener of [...this.listeners, this.changedState, this.toldFindings]) {
      listener.dispose();
    }
  }
}
