/** Findings to the groups of the tree: by cause, file, cost or rank. Pure, for tests. */

import type { Finding } from "../findings";

export const GROUPINGS = ["cause", "file", "cost", "rank"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface Group {
  readonly label: string;
  readonly findings: readonly Finding[];
}

/** What the labels of groups are made with; translated by the caller. */
export interface Words {
  readonly role: (role: string) => string;
  readonly noFile: string;
  readonly noCost: string;
  readonly noRank: string;
  readonly rank: (rank: number) => string;
  readonly band: (share: number) => string;
}

export function grouped(findings: readonly Finding[], by: Grouping, words: Words): Group[] {
  switch (by) {
    case "cause":
      return collect(findings, (finding) => [words.role(finding.role)]);
    case "file":
      return collect(findings, (finding) => [finding.file === "" ? words.noFile : finding.file]).sort(byLabel(words.noFile));
    case "cost":
      return collect([...findings].sort(dearest), (finding) => [band(finding, words)]);
    case "rank":
      return collect(findings, (finding) => ranks(finding, words)).sort(byLabel(words.noRank));
  }
}

/** The dearest first; what has no cost keeps its order behind them. */
export function dearest(a: Finding, b: Finding): number {
  return b.ns - a.ns || b.share - a.share;
}

function band(finding: Finding, words: Words): string {
  return finding.ns < 0 && finding.share < 0 ? words.noCost : words.band(finding.share);
}

function ranks(finding: Finding, words: Words): string[] {
  return finding.ranks.length === 0 ? [words.noRank] : finding.ranks.map(words.rank);
}

function collect(findings: readonly Finding[], labels: (finding: Finding) => string[]): Group[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    for (const label of labels(finding)) {
      const group = groups.get(label);
      if (group === undefined) {
        groups.set(label, [finding]);
      } else {
        group.push(finding);
      }
    }
  }
  return [...groups].map(([label, members]) => ({ label, findings: members }));
}

function byLabel(last: string): (a: Group, b: Group) => number {
  return (a, b) =>
    Number(a.label === last) - Number(b.label === last) || a.label.localeCompare(b.label, undefined, { numeric: true });
}
