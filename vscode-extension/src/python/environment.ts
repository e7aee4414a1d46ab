/**
 * The environment for Python: without `PYTHONPATH`.
 *
 * A project may hold `parsers/`, `json.py` or `dataclasses.py`, and a `PYTHONPATH` that names it or a folder above it,
 * for the training script. Together with `-P` this keeps them from standing in for what the server imports.
 */

export function safeEnvironment(): NodeJS.ProcessEnv {
  const { PYTHONPATH: _path, PYTHONSTARTUP: _startup, ...rest } = process.env;
  return { ...rest, PYTHONUTF8: "1" };
}
