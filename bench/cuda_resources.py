"""Read registers, spills and shared memory of CUDA kernels from the log of the compiler."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """What a kernel was compiled to, on one architecture."""

    file: str
    kernel: str
    architecture: str
    registers: int
    spilled: int  # bytes, stored and loaded
    shared: int  # bytes, static


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
