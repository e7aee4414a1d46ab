/** Runs a program and answers what it printed; never through a shell. */

import { execFile } from "node:child_process";

import { safeEnvironment } from "./environment";

export interface Ran {
  readonly status: number | undefined; // undefined: it could not be started, or took too long
  readonly stdout: string;
  readonly stderr: string;
}

const PATIENCE_MS = 60_000; // a first start from a cold network drive is slow
const MOST_BYTES = 1 << 20;

export function run(program: string, args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { timeout: PATIENCE_MS, maxBuffer: MOST_BYTES, windowsHide: true, env: safeEnvironment() };
    execFile(program, [...args], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      resolve({ status: typeof code === "number" ? code : undefined, stdout, stderr });
    });
  });
}
