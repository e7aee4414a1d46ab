/** Marks in the gutter and the overview ruler on lines that cost time, darker where they cost more. */

import * as vscode from "vscode";

import type { Finding, Findings } from "../findings";
import { affectsHeat, heat } from "../settings";

/** Shares of the time from which on a line has the mark of that number; the last is the hottest. */
const BANDS: readonly number[] = [0, 0.02, 0.1, 0.3];
const COLOURS: readonly string[] = ["necropsy.heat1", "necropsy.heat2", "necropsy.heat3", "necropsy.heat4"];

export function registerHeat(context: vscode.ExtensionContext, findings: Findings): vscode.Disposable {
  let types: vscode.TextEditorDecorationType[] | undefined;
  const paint = (): void => {
    if (types === undefined && findings.all.every((finding) => finding.share <= 0)) {
      return; // nothing to mark, and nothing marked yet
    }
    types ??= COLOURS.map((colour, band) => decoration(context, colour, band + 1));
    for (const editor of vscode.window.visibleTextEditors) {
      const bands = heat() ? lines(findings.in(editor.document.uri)) : [];
      types.forEach((type, band) => editor.setDecorations(type, ranges(bands[band] ?? [])));
    }
  };
  return vscode.Disposable.from(
    findings.onChanged(paint),
    vscode.window.onDidChangeVisibleTextEditors(paint),
    vscode.workspace.onDidChangeConfiguration((event) => affectsHeat(event) && paint()),
    new vscode.Disposable(() => types?.forEach((type) => type.dispose())),
  );
}

/** The lines of each band, by what the findings of a line cost together. */
export function lines(findings: readonly Finding[]): number[][] {
  const shares = new Map<number, number>();
  for (const finding of findings) {
    if (finding.share > 0 && !finding.stale && finding.line >= 0) {
      shares.set(finding.line, (shares.get(finding.line) ?? 0) + finding.share);
    }
  }
  const bands: number[][] = BANDS.map(() => []);
  for (const [line, share] of shares) {
    bands[BANDS.filter((from) => share >= from).length - 1]?.push(line);
  }
  return bands;
}

function decoration(context: vscode.ExtensionContext, colour: string, number: number): vscode.TextEditorDecorationType {
  return vscode.window.createTextEditorDecorationType({
    gutterIconPath: context.asAbsolutePath(`media/heat${number}.svg`),
    gutterIconSize: "contain",
    overviewRulerColor: new vscode.ThemeColor(colour),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
}

function ranges(lines: readonly number[]): vscode.Range[] {
  return lines.map((line) => new vscode.Range(line, 0, line, 0));
}
