"""A process in which mistakes are made with one library, each in a fork of its own."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from equigeo.ops import kernels_info
from tests.mutants.switches import MOST
from tests.ops.run_simulated import Record, check
from tests.ops.simulated_cases import cases
from tests.ops.trapped_calls import TRAPPED, assert_trapped

# A trial without a mistake: what PyTorch imports on first use is not imported in every fork then.
WARM_UP = "gather_sum | small | torch.float32"
Trial = Callable[[], Any]
Log = Callable[[str], Any]


def trials(cpu: Record) -> dict[str, Trial]:
    """What may notice a mistake: every case of the op table, and calls that must end in a trap."""
    found: dict[str, Trial] = {str(case): partial(check, cpu, [case]) for case in cases()}
    return found | {f"trap | {k}": partial(assert_trapped, k, call) for k, call in TRAPPED.items()}


def first_notice(
    library: ctypes.CDLL, known: dict[str, Trial], names: Sequence[str], number: int, log: Log
) -> str:
    """Make a mistake, and what the first trial to notice says; empty if none does."""
    library.equigeo_choose(number)
    for name in names:
        log(name)
        try:
            known[name]()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


def reached(
    library: ctypes.CDLL, known: dict[str, Trial], names: Sequence[str], log: Log
) -> list[dict[str, Any]]:
    """How long each trial takes, and which mistakes it comes by."""
    found = []
    marks = ctypes.create_string_buffer(MOST)
    for name in names:
        log(name)
        library.equigeo_take_reached(marks)
        start = time.perf_counter()
        known[name]()
        seconds = time.perf_counter() - start
        library.equigeo_take_reached(marks)
        numbers = [n for n, mark in enumerate(marks.raw) if mark != 0]
        found.append({"name": name, "seconds": seconds, "reached": numbers})
    return found


def in_fork(run: Callable[[Log], Any], limits: Sequence[float]) -> dict[str, Any]:
    """The answer of a function, or how its process ended without one, and what it last logged."""
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
        progress, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(errors.fileno(), 2)
            text = json.dumps({"answer": run(lambda name: os.write(write, f"{name}\n".encode()))})
            os.write(answer.fileno(), text.encode())
            os._exit(0)
        os.close(write)
        names, ended = _follow(progress, child, limits)
        answer.seek(0)
        errors.seek(0)
        text = answer.read().decode()
        said = errors.read().decode(errors="replace")
    names = names.split("\n")
    found: dict[str, Any] = json.loads(text) if text else {"ended": ended, "errors": said}
    return found | {"last": names[-2] if len(names) > 1 else ""}


def _follow(progress: int, child: int, limits: Sequence[float]) -> tuple[str, str]:
    """What a child logs, and how it ends; one that logs nothing for too long is killed."""
    names = b""
    while select.select([progress], [], [], limits[min(names.count(b"\n"), len(limits) - 1)])[0]:
        part = os.read(progress, 1 << 16)
        if not part:
            break
        names += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(progress)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return names.decode(), "does not end" if status == -signal.SIGKILL else f"exit status {status}"


def main(record: str) -> None:
    cpu = torch.load(record, weights_only=True)
    known = trials(cpu)
    library = ctypes.CDLL(kernels_info()["cuda"])
    known[WARM_UP]()
    for line in sys.stdin:
        task = json.loads(line)
        if task["kind"] == "reach":
            run = partial(reached, library, known, task["names"])
        else:
            run = partial(first_notice, library, known, task["names"], task["number"])
        sys.stdout.write(json.dumps(in_fork(run, task["limits"])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
