"""A copy of the sources that makes any of the mistakes, one at a time, when it is told to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.sources import ROOT, Mutant

COPIED = ("csrc", "equigeo/ops", "CMakeLists.txt")
SUFFIXES = (".cpp", ".cu", ".cuh", ".h", ".py", ".txt")
# One of these comes before every kernel, and before the arithmetic that the host shares.
HEADERS = ("csrc/simulator/include/cuda_runtime.h", "csrc/math/host_device.h")
DECLARATION = """
namespace equigeo::mutants {

bool chosen(int number);

}  // namespace equigeo::mutants

#ifndef EQUIGEO_CONSTANT_MUTANT
#define EQUIGEO_CONSTANT_MUTANT -1
#endif
"""
# Besides, it notes which mistakes a kernel comes by: others need not be tried on it.
DEFINITION = """
#include <cstring>

namespace equigeo::mutants {
namespace {

constexpr int kMost = 16384;
int choice = -1;
char reached[kMost];

}  // namespace

bool chosen(int number) {
  reached[number] = 1;
  return number == choice;
}

}  // namespace equigeo::mutants

extern "C" {

__attribute__((visibility("default"))) void equigeo_choose(int number) {
  equigeo::mutants::choice = number;
}

__attribute__((visibility("default"))) void equigeo_take_reached(char* to) {
  std::memcpy(to, equigeo::mutants::reached, sizeof(equigeo::mutants::reached));
  std::memset(equigeo::mutants::reached, 0, sizeof(equigeo::mutants::reached));
}

}
"""
MOST = 16384


def switched(text: str, found: Sequence[tuple[int, Mutant]]) -> str:
    """A source that makes the mistake whose number is chosen; those of a file, in order."""
    return _render(text, 0, len(text), list(found))


def _render(text: str, start: int, end: int, found: list[tuple[int, Mutant]]) -> str:
    """The text from start to end, with mistakes that may lie inside others."""
    written = ""
    while found:
        number, mutant = found.pop(0)
        inner = [pair for pair in found if pair[1].end <= mutant.end]
        found = found[len(inner) :]
        before = _render(text, mutant.start, mutant.end, inner)
        written += text[start : mutant.start] + _switch(number, mutant, before)
        start = mutant.end
    return written + text[start:end]


def _switch(number: int, mutant: Mutant, before: str) -> str:
    chosen = f"::equigeo::mutants::chosen({number})"
    if mutant.kind in ("barrier", "statement"):
        return f"if (!{chosen}) {before}"
    if mutant.constant:
        return f"[({before[1:-1]}) - (EQUIGEO_CONSTANT_MUTANT == {number} ? 1 : 0)]"
    if re.fullmatch(r"\w+(?:\.\w+)+", before):  # a member, which may be a pointer
        before = f"bool({before})"
    return f"({chosen} ? ({mutant.after}) : ({before}))"


def write_sources(
    folder: Path, found: Mapping[int, Mutant], library: str = "simulator", root: Path = ROOT
) -> None:
    """Write a copy of the sources, and nothing else; files that are the same are left alone."""
    switches: dict[str, list[tuple[int, Mutant]]] = {}
    for number, mutant in found.items():
        switches.setdefault(mutant.file, []).append((number, mutant))
    written = {folder / "csrc" / library / "mutant.cpp"}
    _write(*written, DEFINITION)
    for name in COPIED:
        path = root / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in SUFFIXES:
                relative = str(file.relative_to(root))
                text = switched(file.read_text(encoding="utf-8"), switches.get(relative, []))
                _write(folder / relative, text + DECLARATION * (relative in HEADERS))
                written.add(folder / relative)
    for file in folder.rglob("*"):
        if file.suffix in SUFFIXES and file not in written:
            file.unlink()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def run(command: Sequence[str | Path], folder: Path | None = None) -> str:
    """Empty where a command succeeds, else what it wrote."""
    result = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return (result.stdout + result.stderr or "no word") if result.returncode else ""


def configure(tree: Path, build: Path, *options: str) -> None:
    """Configure a build of a copy of the sources for the CPU."""
    own = ["-DEQUIGEO_CUDA=OFF", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-G", "Ninja"]
    own += [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    if error := run(["cmake", "-S", tree, "-B", build, *own, *options]):
        raise RuntimeError(f"CMake fails: {error}")
