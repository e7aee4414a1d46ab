/** Findings to counts and to the words for them. */

import * as vscode from "vscode";

import type { Finding, Severity } from "../findings";

const { t } = vscode.l10n;
export const ORDER: readonly Severity[] = ["fatal", "error", "warning", "note"];

export function counts(findings: readonly Finding[]): Record<Severity, number> {
  const tally: Record<Severity, number> = { fatal: 0, error: 0, warning: 0, note: 0 };
  for (const finding of findings) {
    tally[finding.severity] += 1;
  }
  return tally;
}

/** `1 fatal, 2 warnings`; empty for none. */
export function inWords(findings: readonly Finding[]): string {
  const tally = counts(findings);
  return ORDER.filter((severity) => tally[severity] > 0)
    .map((severity) => number(severity, tally[severity]))
    .join(", ");
}

function number(severity: Severity, count: number): string {
  switch (severity) {
    case "fatal":
      return t("{0} fatal", count);
    case "error":
      return count === 1 ? t("1 error") : t("{0} errors", count);
    case "warning":
      return count === 1 ? t("1 warning") : t("{0} warnings", count);
    default:
      return count === 1 ? t("1 note") : t("{0} notes", count);
  }
}

export function icon(severity: Severity): vscode.ThemeIcon {
  switch (severity) {
    case "fatal":
    case "error":
      return new vscode.ThemeIcon("error", new vscode.ThemeColor("list.errorForeground"));
    case "warning":
      return new vscode.ThemeIcon("warning", new vscode.ThemeColor("list.warningForeground"));
    default:
      return new vscode.ThemeIcon("info");
  }
}
