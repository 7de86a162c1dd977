"""What CUDA kernels are compiled to: registers, spills, shared memory and instructions.

    make cuda
    python -m bench.cuda_resources --output bench/results/cuda_resources.json

reads the log of the compiler and the machine code of the kernels of channelwise convolutions, and
``--check`` compares them with that record. Instructions are counted in the code of a kernel, and in
the largest of its loops that contains no other. A kernel for one path table handles an edge there;
the kernels for all tables, which read a table at run time, handle a part of a path.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.recorder import Record, parsed

RECORD = Path(__file__).parent / "results" / "cuda_resources.json"
FILES = (
    "sum_products.cu",
    "differentiate_products.cu",
    "differentiate_targets.cu",
    "sum_targets.cu",
    "plan.cu",
    "outside_components.cu",
)
"""Sources whose kernels make up channelwise convolutions."""
OBJECTS = Path("CMakeFiles/_kernels_cuda.dir/csrc/kernels/cuda")

MOST_GROWTH = 1.1
"""Of instructions, before a change of a kernel has to be recorded."""


@dataclass(frozen=True)
class Resources:
    """What a kernel was compiled to, on one architecture."""

    file: str
    kernel: str
    architecture: str
    registers: int
    spilled: int  # bytes, stored and loaded
    shared: int  # bytes, static

    @property
    def warps(self) -> int:
        """Warps of a multiprocessor that its registers suffice for, of 64; they come in eights."""
        return min(64, 65536 // (32 * -(-self.registers // 8) * 8))


@dataclass(frozen=True)
class Instructions:
    """Machine code of a kernel: all of it, and the largest loop without another inside."""

    all: int
    innermost_loop: int


_ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
# The anonymous namespace of a source: nvcc names it after the file, with hashes around it.
_FILE = re.compile(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+)_cu_[0-9a-f]+")


def read_log(log: str) -> Iterator[Resources]:
    """Read what ``ptxas -v`` wrote of every kernel to the log of ``make cuda``, in its order."""
    entries = list(_ENTRY.finditer(log))
    names = demangled([entry[1] for entry in entries])
    ends = [entry.start() for entry in entries[1:]] + [len(log)]
    for entry, name, end in zip(entries, names, ends, strict=False):  # one end too many for none
        part = log[entry.end() : end]
        spills, used, file = _SPILLS.search(part), _USED.search(part), _FILE.search(entry[1])
        if spills is None or used is None:
            raise ValueError(f"the log says nothing of the registers of {name} on {entry[2]}")
        yield Resources(
            f"{file[1]}.cu" if file else "",
            kernel_name(name),
            entry[2],
            int(used[1]),
            int(spills[1]) + int(spills[2]),
            int(used[2] or 0),
        )


def demangled(symbols: list[str]) -> list[str]:
    """Names as they are written in C++."""
    text = subprocess.run(
        ["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True
    )
    return text.stdout.splitlines()


def kernel_name(function: str) -> str:
    """Name of a kernel with its template arguments, without namespaces and parameters.

    Examples
    --------
    >>> kernel_name("void equigeo::(anonymous namespace)::sum<equigeo::Bf16>(equigeo::A<int>)")
    'sum<Bf16>'
    """
    name = re.sub(r"\w+::|\(anonymous namespace\)::", "", function)
    depth = 0
    for position, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:position]
            break
    # What it returns; spaces are elsewhere only between template arguments.
    return re.sub(r"^\w+ (?=\w)", "", name)


_FUNCTION = re.compile(r"^\s*(?:Function : (\S+)|code for (sm_\w+))$", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)([^;]*);")
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")  # of a branch


def read_code(listing: str) -> dict[tuple[str, str], Instructions]:
    """Count instructions in what ``cuobjdump -sass`` lists, by architecture and symbol."""
    found: dict[tuple[str, str], Instructions] = {}
    architecture = ""
    parts = _FUNCTION.split(listing)[1:]
    for symbol, named, code in zip(*(parts[n::3] for n in range(3)), strict=True):
        architecture = named or architecture
        if symbol:
            found[architecture, symbol] = count_instructions(code)
    return found


def count_instructions(code: str) -> Instructions:
    """Count the instructions of one function, without the padding behind it."""
    places, loops = [], []
    for address, name, operands in _INSTRUCTION.findall(code):
        at, target = int(address, 16), _TARGET.search(operands)
        to = int(target[1], 16) if name.startswith("BRA") and target else at + 1
        if name == "NOP" or to == at:  # behind the code is a branch to itself
            continue
        places.append(at)
        if to < at:
            loops.append((to, at))
    innermost = [
        sum(begin <= at <= end for at in places)
        for begin, end in loops
        if not any(begin <= b and e < end for b, e in loops)
    ]
    return Instructions(len(places), max(innermost, default=0))


def measured(build: Path) -> dict[str, dict[str, Any]]:
    """Resources and instructions of the kernels of convolutions, by architecture and kernel."""
    log, objects = (build / "build.log").read_text(), build / OBJECTS
    code: dict[tuple[str, str], Instructions] = {}
    for name in FILES:
        command = ["cuobjdump", "-sass", str(objects / f"{name}.o")]
        code |= read_code(subprocess.check_output(command, text=True))
    rows = {}
    for entry, found in zip(_ENTRY.finditer(log), read_log(log), strict=True):
        if found.file in FILES:
            counts = code[found.architecture, entry[1]]
            row = {**asdict(found), "warps": found.warps, "instructions": asdict(counts)}
            rows[f"{found.kernel}, {found.architecture}"] = row
    return dict(sorted(rows.items()))


def grown(recorded: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield how kernels have become worse than their record, and which have none."""
    for name, row in now.items():
        if row["spilled"]:
            yield f"{name} spills {row['spilled']} bytes of registers"
        if name not in recorded:
            yield f"{name} is not in the record"
            continue
        for where, count in row["instructions"].items():
            before = recorded[name]["instructions"][where]
            if count > MOST_GROWTH * before:
                yield f"{name} has {count} instructions ({where}), {before} in the record"
    yield from (f"{name} is in the record, but no longer compiled" for name in {*recorded} - {*now})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/cuda"), help="of make cuda")
    parser.add_argument("--check", action="store_true", help="compare with the record")
    options = parsed(parser)
    record = Record(options.output)
    kernels = measured(options.build)
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    (nvcc,) = re.findall(r"release .*V([\d.]+)", version.stdout)
    for name, row in kernels.items():
        counts = row["instructions"]
        print(f"{name}: {row['registers']} registers, {row['warps']} warps, {counts}")
    record.write({"kernels": kernels}, nvcc=nvcc)
    if options.check:
        known = json.loads(RECORD.read_text())
        if worse := list(grown(known["kernels"], kernels)):
            compilers = (
                f"recorded with nvcc {known['circumstances']['versions']['nvcc']}, now {nvcc}"
            )
            raise SystemExit("\n".join([*worse, compilers, f"to accept that, write {RECORD.name}"]))


if __name__ == "__main__":
    main()
