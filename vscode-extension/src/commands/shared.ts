/** What commands work with. */

import type * as vscode from "vscode";

import type { Findings } from "../findings";
import type { Output } from "../output";
import type { Server } from "../server";

export interface Shared {
  readonly context: vscode.ExtensionContext;
  readonly output: Output;
  readonly server: Server;
  readonly findings: Findings;
}

/** As `necropsy_lsp.features.commands` answers. */
export interface Answer {
  readonly ok: boolean;
  readonly error?: string;
  readonly findings?: number;
  readonly first?: string;
  readonly issues?: readonly string[];
  readonly inputs?: readonly { readonly path: string; readonly format: string }[];
}
