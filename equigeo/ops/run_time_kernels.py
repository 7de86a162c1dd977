"""CUDA kernels for the path tables of a model, compiled at run time."""

from __future__ import annotations

import ctypes
import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate, product
from typing import Any

import torch
from torch import nn

from equigeo._core.files import warn_once
from equigeo.ops.first_use import verdict_on_kernels
from equigeo.ops.path_table import PathTable
from equigeo.ops.runtime.library import loaded_library, text_of
from equigeo.ops.runtime.nvrtc import CompileError, MachineCode, Program, compiled
from equigeo.ops.self_test_cases import convolution_cases, couple

KERNELS = (
    "sum_known<equigeo::kTable, float>",
    "sum_known<equigeo::kTable, equigeo::Dual<float>>",
    "differentiate_known<equigeo::kTable, float>",
    "differentiate_known<equigeo::kTable, equigeo::Dual<float>>",
    "sum_seconds<equigeo::kTable>",
    "sum_messages<equigeo::kTable>",
)
"""In the order of LoadedKernels in csrc/kernels/cuda/loaded_kernels.h."""

_SOURCE = """#include "kernels/cuda/run_time_kernels.cuh"

namespace equigeo {{
namespace {{

constexpr int kNumbers[] = {{{numbers}}};
constexpr KnownTable kTable = numbered_table(kNumbers);

}}  // namespace
}}  // namespace equigeo
"""
WARP, MOST_THREADS = 32, 1024
MOST_SEGMENTS, MOST_PATHS, MOST_PARTS, MOST_Y = 12, 72, 12, 32
MOST_SUMS, USUAL_SUMS, MOST_COUPLINGS = 72, 56, 192
"""Limits of csrc/kernels/cuda/known_tables.h and of the kernels."""

REGISTERS, MOST_OF_LANE = 65536, 255
FOR_MESSAGES, FOR_EDGES = 24, 50
"""Registers of a block and a lane, and what kernels need beside numbers that they sum."""

SAME_SIZES, SAME_TABLE = 1, 2
"""Results of equigeo_knows_table."""

AHEAD, COMPILED, GENERAL = "compiled ahead", "compiled", "general kernels: "
_lock = threading.Lock()
_states: dict[tuple[int, tuple[int, ...]], str] = {}
_sizes: dict[tuple[int, ...], tuple[int, ...]] = {}


def compile_kernels(model: nn.Module) -> dict[str, str]:
    """Compile CUDA kernels for the path tables of a model's convolutions.

    Convolutions in float32 and their gradients of two orders then run kernels in which all offsets
    are constants, as they do for the tables that have such kernels ahead. Compilation takes minutes
    for a large table and is cached on disk (:doc:`/cuda`); the kernels are tested before they are
    used. Results differ from those of the general kernels by rounding. Call it after the
    model was moved to its device, and before the capture of CUDA graphs.

    Parameters
    ----------
    model : Module
        Contains layers such as :class:`equigeo.tensor_products.ChannelwiseConv`, or modules that
        :func:`equigeo.interop.accelerate` replaced.

    Returns
    -------
    dict of str to str
        By the name of the convolution in the model: ``"compiled"``, ``"compiled ahead"`` if the
        library has the kernels already, or ``"general kernels: "`` with the reason.

    Raises
    ------
    TypeError
        If ``model`` is no module.
    RuntimeError
        If a CUDA graph is being captured.

    Examples
    --------
    >>> compile_kernels(nn.Linear(2, 2))
    {}
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    return {name: _state(table) for name, table in _tables(model)}


def _tables(model: nn.Module) -> Iterator[tuple[str, PathTable]]:
    """Yield the tables of convolutions, which are modules of packages that import this one."""
    for name, module in model.named_modules():
        if getattr(module, "sums_by_table", False):
            paths: Any = module.product.compiled
            if paths.op == "channelwise_product":  # others run edge by edge
                yield name, paths.table(torch.float32)


def _state(table: PathTable) -> str:
    device, path = table.paths.device, loaded_library("cuda")
    if device.type != "cuda":
        return f"{GENERAL}the table is on {device}"
    if path is None:
        return f"{GENERAL}no CUDA kernels are loaded"
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("kernels must be compiled before a CUDA graph is captured")
    paths, entries, values = table.paths.cpu(), table.entries.cpu(), table.values.cpu().double()
    table = replace(table, paths=paths, entries=entries, values=values)
    numbers = known_numbers(table)
    if numbers is None:
        return f"{GENERAL}kernels for one table do not support its paths"
    with _lock, torch.cuda.device(device):
        index = torch.cuda.current_device()
        if (index, numbers) not in _states:
            _states[index, numbers] = _made(_Kernels(ctypes.CDLL(path), index), numbers, table)
        return _states[index, numbers]


def _made(kernels: _Kernels, numbers: tuple[int, ...], table: PathTable) -> str:
    """Compile, load and test the kernels of a table, and log why if they cannot be used."""
    # Kernels are chosen by sizes, which the host knows, and ask the device whether they are theirs.
    sizes = (len(table.paths), table.dim_x, table.dim_y, table.dim_weight, table.dim_out)
    place, ahead = (kernels.index, *sizes), kernels.ahead(numbers, sizes)
    if ahead == SAME_TABLE:
        return AHEAD
    if ahead == SAME_SIZES or _sizes.get(place, numbers) != numbers:
        return f"{GENERAL}another table of these sizes has kernels"
    try:
        kernels.make(numbers, table)
    except CompileError as error:
        warn_once(f"general CUDA kernels run for a convolution: {error}")
        return f"{GENERAL}{error}"
    _sizes[place] = numbers
    return COMPILED


class _Kernels:
    """The CUDA library on a device."""

    def __init__(self, library: ctypes.CDLL, index: int) -> None:
        self._library = library
        self.index = index

    def ahead(self, numbers: tuple[int, ...], sizes: tuple[int, ...]) -> int:
        """Return whether the library was built with kernels for the table, or for its sizes."""
        rows = (ctypes.c_int64 * len(sizes))(*sizes)
        found: int = self._library.equigeo_knows_table(_integers(numbers), rows)
        return found

    def make(self, numbers: tuple[int, ...], table: PathTable) -> None:
        """Compile, load and test the kernels of a table; raise :class:`CompileError` otherwise."""
        major, minor = torch.cuda.get_device_capability(self.index)
        whole = program(numbers, self._sources(), f"sm_{major}{minor}")
        entry, digest = compiled(whole, partial(self._load, numbers))
        test = partial(self._library.equigeo_test_kernels, entry)
        try:
            verdict = verdict_on_kernels(self.index, digest, convolution_cases(table), test)
        except RuntimeError as error:  # such as too little memory
            raise CompileError(f"the self-test of compiled kernels stopped: {error}") from error
        if verdict is not None and not verdict.has_passed:
            raise CompileError(f"compiled kernels failed their self-test: {verdict.worst}")
        self._library.equigeo_trust_kernels(entry, self.index)

    def _sources(self) -> dict[str, str]:
        sources: dict[str, str] = json.loads(text_of(self._library, "equigeo_kernel_sources"))
        return sources

    def _load(self, numbers: tuple[int, ...], code: MachineCode) -> int:
        symbols, message = [s.encode() for s in code.symbols], ctypes.create_string_buffer(256)
        names = (ctypes.c_char_p * len(symbols))(*symbols)
        entry: int = self._library.equigeo_load_kernels(
            _integers(numbers), code.cubin, names, message, len(message)
        )
        if entry < 0:
            raise CompileError(f"the compiled kernels cannot be loaded: {message.value.decode()}")
        return entry


def known_numbers(table: PathTable) -> tuple[int, ...] | None:  # on the CPU
    """Return the numbers of numbered_table in C++ for a table, or None if it has no kernels."""
    rows = table.paths.tolist()
    if not _fits(table.dim_y, rows):
        return None
    # As kernels read a table; the device compares it with this again, but for coefficients.
    segments = sorted({tuple(row[0:3]) for row in rows})
    ends = [*accumulate((mul * d for _, mul, d in segments), initial=0)]
    outs = [*accumulate((row[1] * row[12] for row in rows), initial=0)]
    weights = [*accumulate((row[1] for row in rows), initial=0)]
    degrees = [[row[n] // 2 for n in (2, 7, 12)] for row in rows]
    wanted = [
        [row[1] for row in rows],
        [[l2**2, 1, 2 * l2 + 1, out] for (_, l2, _), out in zip(degrees, outs, strict=False)],
        [entry for path in degrees for entry in _couplings(*path)],
        [offset for offset, _, _ in segments] + [table.dim_x],
        [outs[-1], weights[-1]],
    ]
    found = [
        [row[11] for row in rows],
        [[*row[5:8], row[10]] for row in rows],
        table.entries.tolist(),
        ends,
        [table.dim_out, table.dim_weight],
    ]
    if found != wanted:
        return None
    in_order = [row[15] for row in rows] == weights[:-1]
    numbers = [table.dim_y, int(in_order), len(segments), len(rows)]
    numbers += [n for _, mul, d in segments for n in (mul, d // 2)]
    for row, (_, l2, l3) in zip(rows, degrees, strict=True):
        numbers += [segments.index(tuple(row[0:3])), l2, l3]
    return tuple(numbers)


def _fits(dim_y: int, rows: list[list[int]]) -> bool:
    """Return whether kernels have the threads, the registers and the lists for a table."""
    segments = {tuple(row[0:3]) for row in rows}
    if not (0 < len(segments) <= MOST_SEGMENTS and len(rows) <= MOST_PATHS and dim_y <= MOST_Y):
        return False
    channels = [mul for _, mul, _ in segments]
    if any(mul % WARP for mul in channels) or not 0 < min(channels) <= MOST_THREADS:
        return False
    for row in rows:
        dims = row[2], row[7], row[12]
        l1, l2, l3 = (d // 2 for d in dims)
        couples = all(d % 2 for d in dims) and abs(l1 - l2) <= l3 <= l1 + l2
        if not couples or row[7] * row[12] > MOST_COUPLINGS:
            return False
    parts, least = _parts(rows), min(channels)
    # With fewer registers, minutes of compilation end with kernels that spill them.
    of_source = sum(-(-mul // least) * d for _, mul, d in segments) + FOR_MESSAGES
    of_target = max(count for _, count in parts) + dim_y + FOR_EDGES
    registers = min(REGISTERS // least, MOST_OF_LANE)
    return len(parts) <= MOST_PARTS and max(of_source, of_target) <= registers


def _parts(rows: list[list[int]]) -> list[tuple[int, int]]:
    """Return channels of the parts into which cut_table in C++ cuts a table, and their numbers."""
    numbers = Counter[tuple[int, ...]]()
    for row in sorted(rows):  # by segment
        numbers[tuple(row[0:3])] += row[12]
    threads = min(mul for _, mul, _ in numbers)
    units = {mul: -(-mul // threads) for _, mul, _ in numbers}
    whole = sum(row[12] * units[row[1]] for row in rows) <= MOST_SUMS
    most = MOST_SUMS if whole else USUAL_SUMS
    parts: list[tuple[int, int]] = []
    for segment, count in sorted(numbers.items(), key=lambda item: -item[1]):
        paths = [row[12] for row in rows if tuple(row[0:3]) == segment]
        for d in [count] if count <= most else paths:
            mul = segment[1]
            fitting = (n for n, (m, sums) in enumerate(parts) if m == mul and sums + d <= most)
            place = next(fitting, None)
            if place is None:
                parts.append((mul, d))
            else:
                parts[place] = (mul, parts[place][1] + d)
    return parts


def _couplings(l1: int, l2: int, l3: int) -> list[list[int]]:
    """Return the components that real harmonics couple."""
    first, second, third = (range(-l, l + 1) for l in (l1, l2, l3))
    return [
        [m1 + l1, m2 + l2, m3 + l3]
        for m1, m2, m3 in product(first, second, third)
        if couple((l1, l2, l3), (m1, m2, m3))
    ]


def program(
    numbers: tuple[int, ...],  # of known_numbers
    sources: dict[str, str],  # headers by name
    architecture: str,  # such as sm_90
) -> Program:
    """Return the program of the kernels for a table."""
    source = _SOURCE.format(numbers=", ".join(map(str, numbers)))
    kernels = tuple(f"equigeo::{kernel}" for kernel in KERNELS)
    return Program(source, sources, kernels, architecture)


def _integers(numbers: tuple[int, ...]) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(numbers))(*numbers)
