"""Python programs that fail, a few files each.

A line that ends in `# here` is where the failure is: the user's line that a reader should
look at. A program that imports `truth` first (see `programs`) also writes down what the
interpreter knows of its exception.
"""

from __future__ import annotations

from textwrap import dedent
from typing import Final

from msgspec import Struct


class Program(Struct, frozen=True):
    """`files`: name -> source; `main` is run. `kind` of traceback, `type` of the telling exception."""

    name: str
    files: dict[str, str]
    type: str
    kind: str = "plain"


def _program(name: str, type: str, main: str, kind: str = "plain", **files: str) -> Program:
    sources = {"main.py": dedent(main).lstrip(), **{f"{n}.py": dedent(t).lstrip() for n, t in files.items()}}
    return Program(name, sources, type, kind)


PROGRAMS: Final = (
    _program(
        "plain",
        "ValueError",
        """
        import truth

        def step(batch):
            total = sum(batch)
            raise ValueError(f"bad batch: {total}")  # here

        def main():
            for epoch in range(3):
                step([epoch,
                      2])

        main()
        """,
    ),
    _program(
        "no-message",
        "AssertionError",
        """
        import truth

        def check(x):
            assert x > 3  # here

        check(1)
        """,
    ),
    _program(
        "lines-in-message",
        "RuntimeError",
        """
        import truth

        def main():
            keys = ["Error(s) in loading state_dict for Net:", "Missing key(s): \\"a.b\\"", "size mismatch for c"]
            raise RuntimeError("\\n\\t".join(keys))  # here

        main()
        """,
    ),
    _program(
        "own-class",
        "engine.StopTraining",
        """
        import truth
        import engine

        engine.run()
        """,
        engine="""
        class StopTraining(Exception):
            pass

        def run():
            raise StopTraining("no improvement in 5 epochs")  # here
        """,
    ),
    _program(
        "cause",
        "ValueError",
        """
        import truth

        def read(text):
            return float(text)  # here

        def build(config):
            try:
                return read(config["lr"])
            except ValueError as error:
                raise RuntimeError("the learning rate is no number") from error

        build({"lr": "3e-4 # tuned"})
        """,
    ),
    _program(
        "probe",
        "RuntimeError",
        """
        import truth

        def fallback():
            raise RuntimeError("no kernel for this build")  # here

        def main():
            try:
                import flash_attention_of_the_future
            except ImportError:
                fallback()

        main()
        """,
    ),
    _program(
        "context",
        "ValueError",
        """
        import truth

        def parse(text):
            return int(text)  # here

        def main():
            try:
                parse("3 GiB")
            except ValueError:
                open("/nonexistent/report.txt")

        main()
        """,
    ),
    _program(
        "from-none",
        "RuntimeError",
        """
        import truth

        def main():
            try:
                {}["a"]
            except KeyError:
                raise RuntimeError("no entry a") from None  # here

        main()
        """,
    ),
    _program(
        "three-deep",
        "ZeroDivisionError",
        """
        import truth

        def a(n):
            return 1 / n  # here

        def b(n):
            try:
                a(n)
            except ZeroDivisionError as e:
                raise ValueError("b") from e

        def c(n):
            try:
                b(n)
            except ValueError as e:
                raise RuntimeError("c") from e

        c(0)
        """,
    ),
    _program(
        "notes",
        "ValueError",
        """
        import truth

        def main():
            error = ValueError("shard 12 is short")
            error.add_note("shard: data/012.tar")
            error.add_note("worker: 3")
            raise error  # here

        main()
        """,
    ),
    _program(
        "recursion",
        "RecursionError",
        """
        import truth

        def walk(node):
            return walk(node)  # here

        walk(1)
        """,
    ),
    _program(
        "syntax-error",
        "SyntaxError",
        """
        import truth
        import model
        """,
        model="""
        def forward(x):
            return x +  # here
        """,
    ),
    _program(
        "group",
        "TypeError",
        """
        import truth

        def load(n):
            if n == 1:
                raise TypeError("shard 1 is no tensor")  # here
            raise ValueError(f"shard {n} is empty")

        def gather():
            errors = []
            for n in (1, 2):
                try:
                    load(n)
                except Exception as error:
                    errors.append(error)
            raise ExceptionGroup("2 shards failed", errors)

        gather()
        """,
    ),
    _program(
        "groups-nested",
        "OSError",
        """
        import truth

        def fail(error):
            raise error  # here

        def collect(name, *errors):
            caught = []
            for error in errors:
                try:
                    fail(error)
                except Exception as e:
                    caught.append(e)
            raise ExceptionGroup(name, caught)

        try:
            collect("inner", OSError("disk 3"), KeyError("k"))
        except ExceptionGroup as error:
            inner = error
        collect("outer", inner, ValueError("late"))
        """,
    ),
    _program(
        "keyboard-interrupt",
        "KeyboardInterrupt",
        """
        import truth
        import os, signal

        def train():
            os.kill(os.getpid(), signal.SIGINT)  # here
            sum(range(10**6))

        train()
        """,
    ),
    _program(
        "thread",
        "RuntimeError",
        """
        import threading

        def work():
            raise RuntimeError("the feeder thread is out of data")  # here

        t = threading.Thread(target=work)
        t.start()
        t.join()
        """,
        kind="thread",
    ),
    _program(
        "ignored",
        "AttributeError",
        """
        class Pool:
            def __del__(self):
                self.handle.close()  # here

        pool = Pool()
        del pool
        """,
        kind="ignored",
    ),
    _program(
        "pool-worker",
        "ValueError",
        """
        import multiprocessing

        def job(n):
            raise ValueError(f"cannot decode sample {n}")  # here

        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(1) as pool:
                pool.map(job, [4])
        """,
    ),
    _program(
        "futures-worker",
        "ValueError",
        """
        import concurrent.futures, multiprocessing

        def job(n):
            raise ValueError(f"cannot decode sample {n}")  # here

        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
                pool.submit(job, 4).result()
        """,
    ),
    _program(
        "child-process",
        "ValueError",
        """
        import multiprocessing

        def job():
            raise ValueError("shard 7 is short")  # here

        if __name__ == "__main__":
            child = multiprocessing.get_context("fork").Process(target=job)
            child.start()
            child.join()
        """,
    ),
    _program(
        "logged",
        "ConnectionError",
        """
        import logging

        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")

        def push():
            raise ConnectionError("192.0.2.15 refused")  # here

        try:
            push()
        except ConnectionError:
            logging.getLogger("metrics").exception("metrics were not sent")
        """,
    ),
)
