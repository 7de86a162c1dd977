"""What the compiler says of CUDA kernels, and how many of their blocks a multiprocessor holds."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Architecture:
    """Limits of a multiprocessor: CUDA C++ Programming Guide, technical specifications.

    What it hands out comes in pieces, by NVIDIA's occupancy calculator: registers by ``REGISTERS``
    for a warp, warps by ``WARPS``, shared memory by ``SHARED`` bytes, of which the driver takes
    ``RESERVED`` for every block.
    """

    name: str
    shared: int  # bytes
    registers: int = 65536
    warps: int = 64
    blocks: int = 32

    REGISTERS, WARPS, SHARED, RESERVED = 256, 4, 128, 1024


ARCHITECTURES = {
    "sm_80": Architecture("sm_80", shared=164 * 1024),
    "sm_90": Architecture("sm_90", shared=228 * 1024),
}


@dataclass(frozen=True)
class Resources:
    """What a kernel was compiled to, on one architecture."""

    file: str
    kernel: str
    architecture: str
    registers: int
    spilled: int  # bytes, stored and loaded
    shared: int  # bytes, static


def occupancy(architecture: Architecture, registers: int, threads: int, shared: int) -> float:
    """Share of the warps of a multiprocessor that are there at once.

    Parameters
    ----------
    architecture : Architecture
        Its limits.
    registers : int
        Of a thread.
    threads, shared : int
        Of a block; shared memory in bytes, static and dynamic.

    Returns
    -------
    float
        From 0, where a block asks for more than there is, to 1.

    Examples
    --------
    >>> occupancy(ARCHITECTURES["sm_80"], registers=64, threads=256, shared=0)
    0.5
    """
    a = architecture
    warps = _pieces(threads, WARP)
    of_warp = _pieces(registers * WARP, a.REGISTERS) * a.REGISTERS
    by_registers = a.registers // of_warp // a.WARPS * a.WARPS // warps
    of_block = _pieces(shared + a.RESERVED, a.SHARED) * a.SHARED
    blocks = min(a.blocks, a.warps // warps, by_registers, a.shared // of_block)
    return blocks * warps / a.warps


def _pieces(amount: int, size: int) -> int:
    return (amount + size - 1) // size


_ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
# The anonymous namespace of a source: nvcc names it after the file, with hashes around it.
_FILE = re.compile(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+)_cu_[0-9a-f]+")


def read_log(log: str) -> Iterator[Resources]:
    """Read what ``ptxas -v`` wrote of every kernel, architecture by architecture.

    Parameters
    ----------
    log : str
        As ``make cuda`` leaves it in ``build/cuda/build.log``.

    Yields
    ------
    Resources
        In the order of the log.

    Raises
    ------
    ValueError
        If the log breaks off within a kernel.
    """
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
