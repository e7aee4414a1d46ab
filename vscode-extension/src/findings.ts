/** What the server knows, as it answers `necropsy.findings`; asked for again when it says so. */

import * as vscode from "vscode";

import type { Server } from "./server";

export type Severity = "fatal" | "error" | "warning" | "note";

/** As `necropsy_lsp.catalogue.Evidence`. */
export interface Evidence {
  readonly label: string;
  readonly input: string;
  readonly uri: string;
  readonly line: number;
}

/** As `necropsy_lsp.catalogue.Known`. */
export interface Finding {
  readonly fingerprint: string;
  readonly rule: string;
  readonly name: string;
  readonly severity: Severity;
  readonly role: string;
  readonly message: string;
  readonly uri: string;
  readonly line: number;
  readonly file: string;
  readonly function: string;
  readonly exactness: string;
  readonly stale: boolean;
  readonly ns: number;
  readonly share: number;
  readonly price: string;
  readonly ranks: readonly number[];
  readonly count: number;
  readonly fixes: readonly string[];
  readonly evidence: readonly Evidence[];
  readonly source: string;
}

const QUIET_MS = 50; // the server tells several changes in a row

export class Findings implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly listeners: vscode.Disposable[];
  private known: readonly Finding[] = [];
  private timer: NodeJS.Timeout | undefined;
  private asked = 0;

  readonly onChanged = this.changed.event;

  constructor(private readonly server: Server) {
    this.listeners = [
      server.onFindings(() => this.soon()),
      server.onState((state) => state.kind === "stopped" && this.take([])),
    ];
  }

  get all(): readonly Finding[] {
    return this.known;
  }

  /** Findings that stand in a file, by its URI. */
  in(uri: vscode.Uri): readonly Finding[] {
    const text = uri.toString();
    return this.known.filter((finding) => finding.uri !== "" && vscode.Uri.parse(finding.uri).toString() === text);
  }

  async refresh(): Promise<void> {
    const number = ++this.asked;
    if (this.server.state.kind !== "running") {
      return;
    }
    const answer = await this.server.ask<Finding[]>("necropsy.findings").catch(() => undefined);
    if (number === this.asked && answer !== undefined) {
      this.take(answer);
    }
  }

  private soon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(), QUIET_MS);
  }

  private take(findings: readonly Finding[]): void {
    this.known = findings;
    this.changed.fire();
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const listener of [...this.listeners, this.changed]) {
      listener.dispose();
    }
  }
}
