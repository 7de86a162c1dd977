"""Mistakes in the CPU kernels, all in one library that makes the one that is chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.mutants.conditions import at_run_time, masked
from tests.mutants.sources import ROOT, Mutant, mutants_of
from tests.mutants.switches import configure, run, write_sources

KERNELS = "csrc/kernels/cpu"
ASSIGNMENT = re.compile(
    r"^ +((?:\w+(?:\.|->))*\w+(?:\[[^\n;=]*\])* (?:=|\+=|-=|\*=|/=) [^;{}]*;)$", re.MULTILINE
)


def kernel_mutants(root: Path = ROOT) -> Iterator[Mutant]:
    """Yield conditions taken out, loops gone on with and assignments removed."""
    for file in included_files(root):
        text = (root / file).read_text(encoding="utf-8")
        yield from mutants_of(file, text)
        for match in ASSIGNMENT.finditer(at_run_time(masked(text))):
            start, end = match.span(1)
            line = text.count("\n", 0, start) + 1
            yield Mutant("statement", file, start, line, text[start:end], "")


def included_files(root: Path = ROOT) -> list[str]:
    """Return the sources of the CPU kernels and all headers of csrc/math that they include."""
    left = [str(path.relative_to(root)) for path in sorted((root / KERNELS).iterdir())]
    found: set[str] = set()
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            names = re.findall(r'#include "(math/[^"]+)"', (root / file).read_text("utf-8"))
            left += [f"csrc/{name}" for name in names]
    return sorted(found - {f"{KERNELS}/isa.cpp"})


def build(folder: Path, chosen: Mapping[int, Mutant], jobs: int) -> dict[int, Mutant]:
    """Build the library in ``folder / "build"``; return the mistakes that the compiler accepts."""
    tree = folder / "tree"
    accepted = dict(sorted(chosen.items(), key=lambda pair: (pair[1].start, -pair[1].end)))
    # One body, called baseline, for the instruction set of this machine.
    flags = f"-march=native -w -include {tree}/csrc/math/host_device.h"
    while True:
        write_sources(tree, accepted, "register/cpu")
        options = ["-DEQUIGEO_ISAS=baseline", f"-DCMAKE_CXX_FLAGS={flags}"]
        configure(tree, folder / "build", *options)
        command = ["cmake", "--build", folder / "build", "--parallel", str(jobs)]
        error = run([*command, "--target", "_kernels_cpu", "--", "-k", "0"])
        if not error:
            return {n: mutant for n, mutant in chosen.items() if n in accepted}
        places = set(re.findall(rf"{tree}/(\S+?):(\d+):\d+: error:", error))
        refused = {n for n, m in accepted.items() if (m.file, str(m.line)) in places}
        if not refused:
            raise RuntimeError(f"the sources with mistakes do not build:\n{error}")
        for number in refused:
            del accepted[number]
