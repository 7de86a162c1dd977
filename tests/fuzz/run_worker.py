"""The process in which cases run: ``tests.fuzz.run_worker TARGET DESCRIPTOR SEED FIRST LAST``."""

import os
import re
import resource
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.case import Case

LONGEST = 400  # characters of a message
MOST_MEMORY = 6 << 30  # bytes: what asks for more shall be told so, not take all of the machine's
SOURCE_PLACE = re.compile(r"\.(?:cpp|cc|cu|h|cuh)\b:\d+|frame #\d+|Exception raised from")
SCHEMA_CHECK = "Expected a value of type"  # PyTorch's own: argument, place and value, at length
NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"  # PyTorch's own, and clear

ANSWERED, REFUSED, POOR, ACCEPTED = "answered", "refused", "poor answer", "silent acceptance"


def answer(case: Case) -> tuple[str, str]:
    """Run a case: the kind of its answer, and what is to be said about it."""
    try:
        case.call()
    except case.refused_by as error:
        traceback.print_exc()  # for whoever repeats the case
        fault = fault_of(str(error))
        kind = POOR if fault else REFUSED
        return kind, f"{type(error).__name__} {fault}: {str(error)[: 2 * LONGEST]}"
    except BaseException as error:
        traceback.print_exc()
        return POOR, f"{type(error).__name__}, not expected: {str(error)[:LONGEST]}"
    return (ACCEPTED, "returned") if case.must_refuse else (ANSWERED, "")


def fault_of(message: str) -> str:
    """What is poor about a message, or nothing."""
    if not message.strip():
        return "without a word"
    if len(message) > LONGEST and SCHEMA_CHECK not in message:
        return f"of {len(message)} characters"
    if (found := SOURCE_PLACE.search(message)) and NO_MEMORY not in message:
        return f"with a place in C++, {found[0]}"
    if any(folder in message for folder in package_folders()):
        return "with a path of the package"
    return ""


def package_folders() -> list[str]:
    """Where this package and PyTorch are."""
    specs = [find_spec(name) for name in ("equigeo", "torch")]
    return [str(Path(spec.origin).parent) for spec in specs if spec and spec.origin]


def main(target: str, descriptor: int, seed: int, first: int, last: int | None = None) -> None:
    reports = Connection(descriptor, readable=False)
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # whose own memory is beyond all limits
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    cases = import_module(f"tests.fuzz.{target}").cases(seed)
    for index, case in enumerate(islice(cases, first, last), first):
        reports.send(("case", index, (case.label, case.seconds)))
        reports.send(("done", *answer(case)))
    reports.send(("end", "", ""))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
