/** A Python to what it can do here: run the language server, or what is missing for that. */

import { run } from "./run";

/** The oldest engine whose language server answers `necropsy.findings`. */
export const OLDEST = "0.1.0";

export type Probe =
  | { readonly kind: "usable"; readonly executable: string; readonly version: string }
  | { readonly kind: "no-necropsy" | "no-lsp"; readonly executable: string }
  | { readonly kind: "too-old"; readonly executable: string; readonly version: string }
  | { readonly kind: "old-python"; readonly executable: string; readonly version: string }
  | { readonly kind: "broken"; readonly executable: string; readonly why: string }
  | { readonly kind: "no-python" };

// Looks for files and imports none of them: a user's own `pygls.py` is never run.
const QUESTION = [
  "import sys, json",
  "import importlib.util as u",
  "import importlib.metadata as m",
  "has = lambda name: u.find_spec(name) is not None",
  "own = has('necropsy') and has('necropsy_lsp')",
  "version = m.version('necropsy') if own else ''",
  "say = {'necropsy': own, 'lsp': has('pygls') and has('lsprotocol'), 'version': version}",
  "say['executable'] = sys.executable",
  "print(json.dumps(say))",
].join("\n");
const VERSION = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";

interface Said {
  readonly executable: string;
  readonly necropsy: boolean;
  readonly lsp: boolean;
  readonly version: string;
}

export async function probe(python: string): Promise<Probe> {
  // `-P`, of Python 3.11: the working folder does not hold what is imported.
  const { stdout, stderr } = await run(python, ["-P", "-c", QUESTION]);
  const said = parsed(stdout);
  if (said === undefined) {
    return olderPython(python, stderr);
  }
  const { executable, version } = said;
  if (!said.necropsy) {
    return { kind: "no-necropsy", executable };
  }
  if (!atLeast(numbers(version), numbers(OLDEST))) {
    return { kind: "too-old", executable, version };
  }
  return said.lsp ? { kind: "usable", executable, version } : { kind: "no-lsp", executable };
}

async function olderPython(python: string, complaint: string): Promise<Probe> {
  const [executable, version] = (await run(python, ["-I", "-c", VERSION])).stdout.trim().split(/\r?\n/);
  if (executable === undefined || version === undefined || !/^\d+\.\d+$/.test(version)) {
    return { kind: "no-python" };
  }
  const why = complaint.trim().split(/\r?\n/).at(-1) ?? "";
  return atLeast(numbers(version), [3, 11]) ? { kind: "broken", executable, why } : { kind: "old-python", executable, version };
}

function parsed(stdout: string): Said | undefined {
  try {
    return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Said;
  } catch {
    return undefined;
  }
}

function numbers(version: string): number[] {
  return version.split(".").map((part) => Number.parseInt(part, 10) || 0);
}

function atLeast(have: readonly number[], need: readonly number[]): boolean {
  for (const [index, wanted] of need.entries()) {
    const own = have[index] ?? 0;
    if (own !== wanted) {
      return own > wanted;
    }
  }
  return true;
}
