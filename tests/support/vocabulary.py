"""Words, prefixes and lines that a log reader reacts to, for random and for repeated text."""

from __future__ import annotations

from typing import Final

from necropsy_parsers.messages import all_messages

SAMPLES: Final = [text for kind in all_messages() for text in kind.samples]

_PHRASES: Final = """\
Traceback (most recent call last):
Exception Group Traceback (most recent call last):
Original Traceback (most recent call last):
File "/home/trainer/projects/vit/train.py", line 12, in main
File "train.py", line 3
File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1518, in _call_impl
ValueError: bad batch
KeyError
torch.OutOfMemoryError: CUDA out of memory.
mypkg.Boom: x
During handling of the above exception, another exception occurred:
The above exception was the direct cause of the following exception:
[Previous line repeated 996 more times]
    ^^^^^^
from user code:
+---------------- 1 ----------------
╭─ Traceback (most recent call last) ─╮
│ train.py:3 in f │
❱ 3 x │
╰──╯
│
Exception in thread Thread-1 (work):
Restarting worker group
$ python train.py
step 12 loss nan
loss: 1e400
loss -inf
[0/1]
0x7f
99999999999999999999999
1"""
_SIGNS: Final = ('"""', "-", "%", "`", "'", "\u2028", "\x85", "é", "🔥", "\ufeff", "\x1b[31m", "\x1b[0m", "\x00")
WORDS: Final = sorted(
    {
        *(t for kind in all_messages() for t in (*kind.triggers, *kind.sampled)),
        *SAMPLES,
        *_PHRASES.split("\n"),
        *_SIGNS,
    }
)
PREFIXES: Final = (
    "",
    "",
    "",
    *("  ", "\t", "  | ", "    + ", "\r"),
    *("[rank0]: ", "[rank1]:", "0: ", "1: ", "[1,2]<stderr>:", "(Worker pid=12) ", "svc-1  | ", "node-3: "),
    *("2024-05-01T12:00:00Z ", "2024-05-01 12:00:00,123 - ERROR - ", "E0501 12:00:00.123 4411 a.py:3] "),
)

# What long lines are padded with: one of each class of character that patterns repeat.
PADDINGS: Final = (
    *("a", "a.", "/a", "a b ", "a=", "File ", "loss ", "no ", "[0]"),
    *("0", "1,", " ", "\t", ".", ":", "-", "[", "(", '"', "'", "^", "| "),
)

TRACE: Final = (
    'Traceback (most recent call last):\n  File "/home/trainer/projects/vit/train.py", line <n>, in main\n'
    "    step(batch)\nValueError: bad batch <n>\n"
)


def _each(prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in TRACE.splitlines())


# Lines repeated without end; `<n>` is another number each time.
ENDLESS: Final = {
    "lines of nothing": "2024-05-01 12:00:00 INFO prefetching shard <n>\n",
    "empty lines": "\n",
    "progress bars": "\r<n>/900 [00:41<21:33,  3.41s/it, loss=0.871]",
    "steps": "step <n> loss 0.4211\n",
    "steps to NaN": "step <n> loss nan\n",
    "tracebacks": TRACE,
    "exceptions without a traceback": "RuntimeError: DataLoader worker (pid <n>) is killed by signal: Killed. \n",
    "exceptions and work of a rank": _each("[rank3]: ") + "[rank3]: step <n> loss 0.3\n[rank2]: step <n> loss 0.2\n",
    "tracebacks that were handled": TRACE + "step <n> loss 0.3\nresumed <n>\n" * 3,
    "tracebacks of as many ranks": _each("[rank<n>]: "),
    "tracebacks of as many workers": _each("(Worker pid=<n>) "),
    "workers that all leave a traceback open": "(Worker pid=<n>) Traceback (most recent call last):\n",
    "workers that speak once": "(Worker pid=<n>) error: retrying\n",
    "threads": "Exception in thread Thread-<n>:\n" + TRACE,
    "headers": "Traceback (most recent call last):\n",
    "frames": '  File "train.py", line <n>, in f<n>\n    x = f<n>()\n',
    "chains": TRACE + "\nDuring handling of the above exception, another exception occurred:\n\n",
    "exceptions of many files": TRACE.replace("train.py", "part<n>.py"),
    "groups": "  + Exception Group Traceback (most recent call last):\n  | ValueError: x\n  +-+---- <n> ----\n",
    "a message": "RuntimeError: CUDA error: x\n",
    "continuation lines": "  detail <n> of the error\n",
    "restarts": "Restarting worker group <n>\n" + TRACE,
    "assertions": "/t/L.cu:24: nll: block: [<n>,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n` failed.\n",
    "rich boxes": "╭─ Traceback (most recent call last)─╮\n│ /a/train.py:<n> in f │\n│ ❱ <n> x │\n╰─╯\nValueError: x\n",
    "warnings": "/home/trainer/projects/vit/data.py:<n>: UserWarning: labels overlap\n  check(<n>)\n",
    "anomalies": "/t/graph.py:8: UserWarning: Error detected in SqrtBackward0. Traceback of forward call:\n"
    '  File "train.py", line <n>, in f\n    y = torch.sqrt(x)\n',
}
