/** *Explain Rule*: the page of a rule, picked by code or title. */

import * as vscode from "vscode";

import type { Shared } from "./shared";

interface Rule {
  readonly code: string;
  readonly title: string;
}

export function registerExplain({ server, findings }: Shared): vscode.Disposable {
  return vscode.commands.registerCommand("necropsy.explain.rule", async (given?: unknown) => {
    const code = codeOf(given) ?? (await choose());
    if (code !== undefined) {
      await server.ask("necropsy.explain", code);
    }
  });

  async function choose(): Promise<string | undefined> {
    const rules = (await server.ask<Rule[]>("necropsy.rules")) ?? [];
    const seen = new Set(findings.all.map((finding) => finding.rule));
    const items = rules.map(({ code, title }) => ({ label: code, description: title, seen: seen.has(code) }));
    items.sort((a, b) => Number(b.seen) - Number(a.seen) || a.label.localeCompare(b.label));
    const options = { title: vscode.l10n.t("Explain Rule"), matchOnDescription: true };
    return items.length === 0 ? undefined : (await vscode.window.showQuickPick(items, options))?.label;
  }
}

/** A code, or a node of the tree that has one. */
function codeOf(given: unknown): string | undefined {
  if (typeof given === "string") {
    return given;
  }
  return (given as { readonly finding?: { readonly rule?: string } } | undefined)?.finding?.rule;
}
