"""Makes every mistake in a copy of the sources and sees what notices it: ``make mutate-cuda``.

Barriers are skipped by the simulator; any other mutant is built as ``make test-cuda`` builds the
kernels. It is run on the rows of the op table that go through it until something notices: the
compiler, races, the address sanitizer, errors or values in some order of threads. The table, with
what is documented as redundant, is written to a file of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from functools import cached_property
from pathlib import Path

from tests.mutants.redundant import REDUNDANT
from tests.mutants.sources import ROOT, Mutant, mutants
from tests.ops.run_simulated import CHECKS, ORDERS, environment, say

COPIED = ("csrc", "equigeo/ops")
# Odd multiplicities and channels, several batches of edges, nothing at all.
PROBLEMS = ("small", "odd sizes", "one hub", "no edges")
TIMEOUT = 900  # seconds; a mutant that runs for longer is one that does not end
# What is tried one after another; races are found in any order.
TRIALS = [("thread", "forward"), *(("address", order) for order in ORDERS)]
UNNOTICED = "not noticed"


class Workshop:
    """The libraries as they are, and a copy of the sources that is built with each mistake."""

    def __init__(self, libraries: Path, folder: Path) -> None:
        self.libraries, self.tree, self.copy = libraries, folder / "tree", folder / "build"

    @cached_property
    def is_copied(self) -> bool:
        """Copy the sources and build them without a mistake, once."""
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in COPIED:
            shutil.copytree(ROOT / name, self.tree / name)
        shutil.copy(ROOT / "CMakeLists.txt", self.tree)
        options = ["-DEQUIGEO_CUDA=OFF", "-DEQUIGEO_SIMULATED=ON", "-G", "Ninja"]
        options += [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]
        error = _run(["cmake", "-S", self.tree, "-B", self.copy, *options])
        for checks in CHECKS:
            error = error or self.build(checks)
        if error:
            raise RuntimeError(f"the sources do not build: {_shortened(error)}")
        return True

    def build(self, checks: str) -> str:
        """Empty, or what the compiler says."""
        return _run(["cmake", "--build", self.copy, "--target", f"simulated_{checks}"])

    def noticed(self, mutant: Mutant) -> str:
        """What notices a mutant, in a few words; empty if nothing does."""
        if mutant.skipped:
            skip = {"EQUIGEO_SIMULATE_SKIP": mutant.skipped}
            trials = ((c, o, self.run(c, o, mutant.rows, skip)) for c, o in TRIALS)
            return next((f"{c}, {o}: {error}" for c, o, error in trials if error), "")
        assert self.is_copied
        path = self.tree / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(mutant.apply(text), encoding="utf-8")
        try:
            return self.try_built(mutant.rows)
        finally:
            path.write_text(text, encoding="utf-8")

    def try_built(self, rows: list[str]) -> str:
        built = set()
        for checks, order in TRIALS:
            if checks not in built and (error := self.build(checks)):
                return f"compiler: {_shortened(error)}"
            built.add(checks)
            if error := self.run(checks, order, rows, {"EQUIGEO_KERNELS": str(self.copy / checks)}):
                return f"{checks}, {order}: {error}"
        return ""

    def run(self, checks: str, order: str, rows: list[str], variables: dict[str, str]) -> str:
        """What goes wrong on some rows of the op table; empty if nothing does."""
        command = [sys.executable, "-m", "tests.ops.run_simulated", "check"]
        command += [self.libraries / "cpu.pt"]
        command += [f"--select={row}&| {problem}" for row in rows for problem in PROBLEMS]
        error = _run(command, environment(self.libraries, checks, order) | variables)
        return error and _shortened(error)


def _run(command: list[str | Path], variables: dict[str, str] | None = None) -> str:
    """Empty where a command succeeds, else what it wrote."""
    try:
        result = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "does not end"
    return result.stdout + result.stderr if result.returncode else ""


NOTICES = [
    r"accesses that no barrier puts in order:\n.*",
    r"\S+:\d+: (__syncwarp|__syncthreads|a shuffle|__trap|lane).*",
    r"ERROR: AddressSanitizer: \S+",
    r"runtime error: .*",
    r"AssertionError: .*",
    r"RuntimeError: .*",
    r"error: .*",
    r"does not end",
]


def _shortened(output: str) -> str:
    """What matters of an error."""
    for notice in NOTICES:
        if match := re.search(notice, output):
            return " ".join(match[0].split())[:160]
    return output.strip().splitlines()[-1][:160] if output.strip() else "no word"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", type=Path, help="a folder where tests.ops.run_simulated ran")
    parser.add_argument("folder", type=Path, help="where copies are built")
    parser.add_argument("output", type=Path, help="a file of JSON")
    parser.add_argument("--select", action="append", help="mutants whose kind and name have this")
    options = parser.parse_args(arguments)
    workshop = Workshop(options.libraries.absolute(), options.folder.absolute())
    rows = []
    for mutant in sorted(mutants(), key=lambda m: not m.skipped):  # first what needs no compiler
        if not any(part in f"{mutant.kind} {mutant}" for part in options.select or [""]):
            continue
        start = time.perf_counter()
        noticed = workshop.noticed(mutant) or _excuse(mutant)
        rows.append({"mutant": str(mutant), "kind": mutant.kind, "noticed": noticed})
        say(f"{mutant}\n    {noticed}  ({time.perf_counter() - start:.0f} s)")
    counts = Counter(re.split("[,:]", row["noticed"])[0] for row in rows)
    options.output.write_text(json.dumps({"counts": counts, "mutants": rows}, indent=1) + "\n")
    say(str(dict(counts)))
    sys.exit(counts[UNNOTICED] > 0)


def _excuse(mutant: Mutant) -> str:
    reason = REDUNDANT.get(str(mutant))
    return f"redundant: {reason}" if reason else UNNOTICED


if __name__ == "__main__":
    main(sys.argv[1:])
