/** The findings tree: groups, findings that lead to their line, and the evidence under each. */

import * as path from "node:path";
import * as vscode from "vscode";

import type { Evidence, Finding, Findings } from "../findings";
import { type Group, GROUPINGS, type Grouping, grouped, type Words } from "./grouping";
import { icon, inWords } from "./tally";

const { t } = vscode.l10n;
const KEPT = "necropsy.grouping";

type Node =
  | { readonly kind: "group"; readonly group: Group }
  | { readonly kind: "finding"; readonly finding: Finding }
  | { readonly kind: "evidence"; readonly evidence: Evidence }
  | { readonly kind: "fix"; readonly title: string };

export function registerTree(context: vscode.ExtensionContext, findings: Findings): vscode.Disposable {
  const provider = new Tree(context.workspaceState, findings);
  const view = vscode.window.createTreeView("necropsy.findings", { treeDataProvider: provider, showCollapseAll: true });
  const badge = (): void => {
    const total = findings.all.length;
    view.badge = total === 0 ? undefined : { value: total, tooltip: inWords(findings.all) };
    view.description = grouping(provider.by);
  };
  return vscode.Disposable.from(
    view,
    findings.onChanged(() => {
      provider.changed();
      badge();
    }),
    vscode.commands.registerCommand("necropsy.groupBy", async (wanted?: unknown) => {
      const chosen = typeof wanted === "string" ? wanted : await ask(provider.by);
      if (isGrouping(chosen)) {
        await provider.group(chosen);
        badge();
      }
    }),
  );
}

class Tree implements vscode.TreeDataProvider<Node> {
  private readonly emitter = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.emitter.event;

  constructor(
    private readonly memory: vscode.Memento,
    private readonly findings: Findings,
  ) {}

  get by(): Grouping {
    const kept = this.memory.get<string>(KEPT);
    return isGrouping(kept) ? kept : "cause";
  }

  async group(by: Grouping): Promise<void> {
    await this.memory.update(KEPT, by);
    this.changed();
  }

  changed(): void {
    this.emitter.fire(undefined);
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) {
      return grouped(this.findings.all, this.by, words()).map((group) => ({ kind: "group", group }));
    }
    switch (node.kind) {
      case "group":
        return node.group.findings.map((finding) => ({ kind: "finding", finding }));
      case "finding":
        return [
          ...node.finding.evidence.map((evidence): Node => ({ kind: "evidence", evidence })),
          ...node.finding.fixes.map((title): Node => ({ kind: "fix", title })),
        ];
      default:
        return [];
    }
  }

  getTreeItem(node: Node): vscode.TreeItem {
    switch (node.kind) {
      case "group":
        return groupItem(node.group);
      case "finding":
        return findingItem(node.finding);
      case "evidence":
        return evidenceItem(node.evidence);
      case "fix":
        return fixItem(node.title);
    }
  }
}

function groupItem({ label, findings }: Group): vscode.TreeItem {
  const item = new vscode.TreeItem(label, vscode.TreeItemCollapsibleState.Expanded);
  item.description = inWords(findings);
  item.contextValue = "group";
  return item;
}

function findingItem(finding: Finding): vscode.TreeItem {
  const inside = finding.evidence.length + finding.fixes.length;
  const collapsed = inside > 0 ? vscode.TreeItemCollapsibleState.Collapsed : vscode.TreeItemCollapsibleState.None;
  const item = new vscode.TreeItem(finding.message, collapsed);
  item.iconPath = icon(finding.severity);
  item.description = [finding.rule, place(finding), finding.price].filter((part) => part !== "").join("  ");
  item.contextValue = "finding";
  item.tooltip = tooltip(finding);
  if (finding.uri !== "") {
    item.command = opening(finding.uri, finding.line);
  }
  return item;
}

function tooltip(finding: Finding): vscode.MarkdownString {
  const text = new vscode.MarkdownString();
  text.appendText(`${finding.rule} ${finding.name}\n`);
  text.appendText(finding.message);
  if (finding.stale) {
    text.appendText(`\n${t("This line has changed since the run.")}`);
  }
  if (finding.price !== "") {
    text.appendText(`\n${finding.price}`);
  }
  return text;
}

function evidenceItem(evidence: Evidence): vscode.TreeItem {
  const item = new vscode.TreeItem(evidence.label === "" ? evidence.input : evidence.label);
  item.iconPath = new vscode.ThemeIcon("output");
  item.description = `${path.basename(evidence.input)}:${evidence.line + 1}`;
  if (evidence.uri !== "") {
    item.command = opening(evidence.uri, evidence.line);
  }
  return item;
}

function fixItem(title: string): vscode.TreeItem {
  const item = new vscode.TreeItem(title);
  item.iconPath = new vscode.ThemeIcon("lightbulb");
  item.tooltip = title;
  return item;
}

function place(finding: Finding): string {
  if (finding.file === "") {
    return "";
  }
  const name = path.posix.basename(finding.file.replaceAll("\\", "/"));
  return finding.line >= 0 ? `${name}:${finding.line + 1}` : name;
}

function opening(uri: string, line: number): vscode.Command {
  const at = new vscode.Position(Math.max(line, 0), 0);
  return { command: "vscode.open", title: t("Open"), arguments: [vscode.Uri.parse(uri), { selection: new vscode.Range(at, at) }] };
}

function words(): Words {
  return {
    role: (role) => (role === "root" ? t("Causes") : role === "cascade" ? t("Consequences") : t("Symptoms")),
    noFile: t("No file"),
    noCost: t("Cost not known"),
    noRank: t("All ranks"),
    rank: (rank) => t("Rank {0}", rank),
    band: (share) => (share >= 0.1 ? t("A tenth of the time or more") : t("Less")),
  };
}

function grouping(by: Grouping): string {
  const names: Record<Grouping, string> = { cause: t("by cause"), file: t("by file"), cost: t("by cost"), rank: t("by rank") };
  return names[by];
}

async function ask(now: Grouping): Promise<string | undefined> {
  const items = GROUPINGS.map((by) => ({ label: grouping(by), by, picked: by === now }));
  return (await vscode.window.showQuickPick(items, { title: t("Group Findings") }))?.by;
}

function isGrouping(value: unknown): value is Grouping {
  return GROUPINGS.some((by) => by === value);
}
