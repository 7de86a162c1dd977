"""What CUDA kernels are compiled to: registers, spills, shared memory and instructions.

    make cuda
    python -m bench.cuda_resources --output bench/results/cuda_resources.json

reads the log of the compiler and the machine code of the kernels of channelwise convolutions, and
``--check`` compares them with that record. Instructions are counted in the code of a kernel, and in
the largest of its loops that contains no other. A kernel for one path table handles an edge there;
the kernels for all tables, which read a table at run time, handle a part of a path.

Bytes in flight are what all warps of a multiprocessor load and store in kernels for one path table,
from one wait for loaded numbers to the next, on average in loops over edges. By Little's law,
2.9 TB/s with a latency of 0.7 us take 16 kB on each of the 132 multiprocessors of an H100.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from bench.recorder import Record, parsed

RECORD = Path(__file__).parent / "results" / "cuda_resources.json"
FILES = (
    *("sum_products.cu", "differentiate_products.cu", "differentiate_targets.cu"),
    *("sum_targets.cu", "plan.cu", "outside_components.cu"),
)
"""Sources whose kernels make up channelwise convolutions."""
OBJECTS = Path("CMakeFiles/_kernels_cuda.dir/csrc/kernels/cuda")

MOST_GROWTH = 1.1
"""Of instructions, before a change of a kernel has to be recorded."""

IN_FLIGHT, LEAST_IN_FLIGHT = "bytes in flight", 16_000
SHARED = {"sm_80": 164 * 1024, "sm_90": 228 * 1024}  # bytes of a multiprocessor
LEAST_LOADS = 5  # of a loop over edges: the smallest table has one feature and four weights


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

    def resident(self, block: int) -> int:
        """Warps of a multiprocessor in blocks of so many, by registers and shared memory."""
        by_shared = SHARED[self.architecture] // (self.shared + 1024)
        return block * min(self.warps // block, by_shared, 32)


@dataclass(frozen=True)
class Instructions:
    """Machine code of a kernel: all of it, and the largest loop without another inside."""

    all: int
    innermost_loop: int
    moved: float = 0.0  # bytes of a warp per wait, in all loops over edges


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
        numbers = int(used[1]), int(spills[1]) + int(spills[2]), int(used[2] or 0)
        yield Resources(f"{file[1]}.cu" if file else "", kernel_name(name), entry[2], *numbers)


def demangled(symbols: list[str]) -> list[str]:
    """Names as they are written in C++."""
    text = subprocess.run(
        ["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True
    )
    return text.stdout.splitlines()


def kernel_name(function: str) -> str:
    """Name of a kernel with its template arguments, without namespaces and parameters.

    >>> kernel_name("void equigeo::(anonymous namespace)::sum<equigeo::Bf16>(equigeo::A<int>)")
    'sum<Bf16>'
    """
    name = re.sub(r"\w+::|\(anonymous namespace\)::", "", function)
    # What it returns; spaces are elsewhere only between template arguments.
    return re.sub(r"^\w+ (?=\w)|\((?:[^()]|\([^()]*\))*\)$", "", name)


_FUNCTION = re.compile(r"^\s*(?:Function : (\S+)|code for (sm_\w+))$", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)([^;]*);")
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")  # of a branch
_BLOCK = re.compile(r"^\.nv\.info\.(\S+)$|EIATTR_MAX_THREADS\s+Format:.*\s+Value:(.*)$", re.M)
_REGISTER = re.compile(r"\bR(\d+)\b")


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
    rows = [(int(at, 16), *rest) for at, *rest in _INSTRUCTION.findall(code) if rest[0] != "NOP"]
    ends = {at: _TARGET.search(operands) for at, name, operands in rows if name[:3] == "BRA"}
    jumps = {at: int(target[1], 16) for at, target in ends.items() if target}
    rows = [row for row in rows if jumps.get(row[0]) != row[0]]  # behind the code, to itself
    loops = [(to, at) for at, to in jumps.items() if to < at]
    innermost = [
        [(name, operands) for at, name, operands in rows if begin <= at <= end]
        for begin, end in loops
        if not any(begin <= b and e < end for b, e in loops)
    ]
    of_edges = [x for x in innermost if sum(n.startswith("LDG") for n, _ in x) >= LEAST_LOADS]
    moved, waits = map(sum, zip(*map(moves, of_edges), strict=True)) if of_edges else (0, 1)
    return Instructions(len(rows), max(map(len, innermost), default=0), moved / waits)


def moves(loop: list[tuple[str, str]]) -> tuple[int, int]:
    """Bytes of global memory that a warp moves in a loop, and waits for what it has loaded."""
    loaded: set[int] = set()
    for _ in range(2):  # what is loaded at the end is awaited at the beginning
        moved = waits = 0
        for name, operands in loop:
            numbers = 4 if ".128" in name else 2 if ".64" in name else 1
            registers = [int(n) for n in _REGISTER.findall(operands)]
            first = registers.pop(0) if re.match(r"\s*R\d", operands) else 0
            if loaded & {*registers}:
                waits, loaded = waits + 1, set()
            moved += 128 * numbers * (name[:3] in ("LDG", "STG"))
            loaded |= {first + n for n in range(numbers) if name[:3] == "LDG"}
    return moved, max(waits, 1)


def read_blocks(listing: str) -> dict[str, int]:
    """Warps of a block, by symbol, of what ``cuobjdump -elf`` lists."""
    found, kernel = {}, ""
    for symbol, sizes in _BLOCK.findall(listing):
        kernel = symbol or kernel
        if sizes:
            found[kernel] = prod(int(size, 16) for size in sizes.split()) // 32
    return found


def measured(build: Path) -> dict[str, dict[str, Any]]:
    """Resources and instructions of the kernels of convolutions, by architecture and kernel."""
    log, objects = (build / "build.log").read_text(), build / OBJECTS
    code: dict[tuple[str, str], Instructions] = {}
    blocks: dict[str, int] = {}
    for name in FILES:
        command = ["cuobjdump", "-sass", "-elf", str(objects / f"{name}.o")]
        listing = subprocess.check_output(command, text=True)
        code |= read_code(listing)
        blocks |= read_blocks(listing)
    rows = {}
    for entry, found in zip(_ENTRY.finditer(log), read_log(log), strict=True):
        if found.file in FILES:
            counts = asdict(code[found.architecture, entry[1]])
            moved = counts.pop("moved")
            row = {**asdict(found), "warps": found.warps, "instructions": counts}
            if "_known<" in found.kernel:
                row[IN_FLIGHT] = int(found.resident(blocks[entry[1]]) * moved)
            rows[f"{found.kernel}, {found.architecture}"] = row
    return dict(sorted(rows.items()))


def grown(recorded: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield how kernels have become worse than their record, and which have none."""
    for name, row in now.items():
        if row["spilled"]:
            yield f"{name} spills {row['spilled']} bytes of registers"
        if name.endswith("sm_90") and row.get(IN_FLIGHT, LEAST_IN_FLIGHT) < LEAST_IN_FLIGHT:
            yield f"{name} has {row[IN_FLIGHT]} {IN_FLIGHT}, {LEAST_IN_FLIGHT} are needed"
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
            then = known["circumstances"]["versions"]["nvcc"]
            compilers = f"recorded with nvcc {then}, now {nvcc}"
            raise SystemExit("\n".join([*worse, compilers, f"to accept that, write {RECORD.name}"]))


if __name__ == "__main__":
    main()
