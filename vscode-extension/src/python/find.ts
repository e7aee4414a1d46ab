/** The first Python that can run the server; where none can, the best reason why. */

import { type Candidate, candidates } from "./candidates";
import { type Probe, probe } from "./probe";

export interface Found {
  readonly candidate: Candidate;
  readonly probe: Probe;
}

// The nearer a candidate came, the better its guidance: one install command away, then two, then none.
const NEAR: readonly Probe["kind"][] = ["usable", "no-lsp", "too-old", "no-necropsy", "broken", "old-python", "no-python"];

export async function findPython(): Promise<Found> {
  let best: Found | undefined;
  for (const candidate of await candidates()) {
    const found = { candidate, probe: await probe(candidate.path) };
    if (found.probe.kind === "usable") {
      return found;
    }
    // The environment that the user works in comes first among equals, and before PATH in any case.
    const nearer = best === undefined || NEAR.indexOf(found.probe.kind) < NEAR.indexOf(best.probe.kind);
    if (nearer && !(best?.candidate.from === "python-extension" && best.probe.kind !== "no-python")) {
      best = found;
    }
  }
  return best ?? { candidate: { path: "python3", from: "path" }, probe: { kind: "no-python" } };
}
