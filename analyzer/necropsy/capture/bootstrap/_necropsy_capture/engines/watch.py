"""Puts the watching logger and the engine inspector into a module of TensorRT's, without changing what it builds.

`Builder`, `Runtime`, `OnnxParser` and `Refitter` get a logger that also writes a file: all the same one, since TensorRT
complains about several. During a build layers are described in detail if the job left that open; that adds names to
the engine and changes no kernel. Layers are read from engines that the job loads, or from small ones right after
the build.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from _necropsy_capture.engines.logger import LogFile, shared
from _necropsy_capture.process import Process

BUILDS = ("build_serialized_network", "build_serialized_network_to_stream", "build_engine_with_config", "build_engine")
LOGGED = ("Builder", "Runtime", "OnnxParser", "Refitter")
INSPECTED = 256 << 20  # bytes of a plan that is loaded once more to read its layers


class Watch:
    """One module."""

    def __init__(self, trt: Any, process: Process) -> None:
        self._trt = trt
        self._process = process
        self._file = LogFile(process.path(trt.__name__.rpartition(".")[2], ".log"))
        self._logger: Any = shared(trt, self._file)
        self._quiet: Any = shared(trt, None)
        self._loggers: dict[int, Any] = {}
        self._builds = self._engines = 0

    def install(self) -> None:
        """Wrap what takes loggers, builds and loads."""
        for name in LOGGED:
            kind = getattr(self._trt, name, None)
            if kind is not None:
                kind.__init__ = self._taking_logger(kind.__init__)
        for name in BUILDS:
            build = getattr(self._trt.Builder, name, None)
            if build is not None:
                setattr(self._trt.Builder, name, self._building(name, build))
        load = self._trt.Runtime.deserialize_cuda_engine
        self._trt.Runtime.deserialize_cuda_engine = self._loading(load)
        self._process.note("tensorrt", "started", module=self._trt.__name__, version=str(self._trt.__version__))

    def _shared(self, value: Any) -> Any:
        if not isinstance(value, self._trt.ILogger) or isinstance(value, (self._logger, self._quiet)):
            return value
        known = self._loggers.get(id(value))
        if known is None:
            known = self._loggers[id(value)] = self._logger(value)  # keeps the job's logger, too
        return known

    def _taking_logger(self, make: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(make)
        def __init__(this: Any, *args: Any, **named: Any) -> None:
            given, named_given = list(args), dict(named)
            with self._process.guard("tensorrt"):
                if self._process.mine:
                    given = [self._shared(a) for a in args]
                    named_given = {k: self._shared(a) for k, a in named.items()}
            make(this, *given, **named_given)

        return __init__

    def _building(self, name: str, build: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(build)
        def built(this: Any, *args: Any, **named: Any) -> Any:
            config: Any = named.get("config", args[1] if len(args) > 1 else None)
            before = self._detailed(config)
            try:
                result = build(this, *args, **named)
            finally:
                if before is not None:
                    with self._process.guard("tensorrt"):
                        config.profiling_verbosity = before
            with self._process.guard("tensorrt"):
                self._builds += 1
                size = getattr(result, "nbytes", None)
                self._process.note("tensorrt", "built", call=name, bytes=size, engine=result is not None)
                self._inspect_plan(result, size)
            return result

        return built

    def _detailed(self, config: Any) -> Any:
        """Ask for details of layers; the setting before, or None where the job chose one."""
        with self._process.guard("tensorrt"):
            levels = self._trt.ProfilingVerbosity
            if config is not None and config.profiling_verbosity == levels.LAYER_NAMES_ONLY:
                config.profiling_verbosity = levels.DETAILED
                return levels.LAYER_NAMES_ONLY
        return None

    def _inspect_plan(self, result: Any, size: int | None) -> None:
        if hasattr(result, "create_engine_inspector"):
            self._inspect(result)
        elif size is not None and size <= INSPECTED:
            # Quietly: where no GPU is at hand that is no trouble of the job's.
            runtime = self._trt.Runtime(self._quiet(None))
            engine = self._load(runtime, result)
            if engine is not None:
                self._inspect(engine)
        else:
            self._process.note("tensorrt", "not inspected", bytes=size, why="only when the job loads it")

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        self._load = load

        @functools.wraps(load)
        def loaded(this: Any, *args: Any, **named: Any) -> Any:
            engine = load(this, *args, **named)
            with self._process.guard("tensorrt"):
                if engine is not None and self._process.mine:
                    self._inspect(engine)
            return engine

        return loaded

    def _inspect(self, engine: Any) -> None:
        """Write the layers of an engine; what the job loads many times is written a few."""
        if self._engines >= 8:
            return
        self._engines += 1
        inspector = engine.create_engine_inspector()
        text = inspector.get_engine_information(self._trt.LayerInformationFormat.JSON)
        name = self._process.path(f"layers{self._engines}", ".json")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
        self._process.note("tensorrt", "inspected", engine=str(getattr(engine, "name", "")), characters=len(text))
