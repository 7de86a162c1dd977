"""A target with every kind of answer, for the tests of the runner; not one of ``all_targets``."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.case import Case

PACKAGE = Path(__file__).parents[2] / "equigeo"


def cases(seed: int) -> Iterator[Case]:
    yield Case("nothing wrong", lambda: os.write(1, b"not a report\n"), ())
    yield Case("refused", lambda: refuse(f"x must be {seed}"), (ValueError,))
    yield Case("another error", lambda: {}["key"], (ValueError,))
    yield Case("a long message", lambda: refuse("x" * 500), (ValueError,))
    yield Case("no message", lambda: refuse(""), (ValueError,))
    yield Case("a path", lambda: refuse(f"see {PACKAGE}/ops/x.py"), (ValueError,))
    yield Case("a place", lambda: refuse("run, /csrc/x.cpp:12, no"), (ValueError,))
    yield Case("accepted", lambda: None, (ValueError,), must_refuse=True)
    yield Case("a signal", lambda: os.kill(os.getpid(), signal.SIGSEGV), ())
    yield Case("an exit", lambda: os._exit(0), ())
    yield Case("no memory under the sanitizer", end_without_memory, ())
    yield Case("schema", lambda: refuse("Expected a value of type" + " x" * 400), (ValueError,))
    yield Case("a hang", lambda: time.sleep(600), (), seconds=0.5)
    yield Case("before", lambda: ran_before.append(seed), ())
    yield Case("slow after another", lambda: time.sleep(600 * len(ran_before)), (), seconds=1.0)
    yield Case("the last", lambda: None, ())


ran_before: list[int] = []


def end_without_memory() -> None:
    os.write(2, b"SUMMARY: AddressSanitizer: out-of-memory x.cpp:95 in operator new\n")
    os._exit(1)


def refuse(message: str) -> None:
    raise ValueError(message)
