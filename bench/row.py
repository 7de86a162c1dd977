"""Rows of benchmarks: a layer on a problem, compared with its peers before anything is timed."""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from timeit import timeit
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.interleaved import copy_bandwidth, medians
from bench.peers import AS_IT_IS, KEPT, Call, Compared, Library, compare, fastest
from equigeo import ops

OURS, BOUND = "ours", "bound"
IN_A_ROW = 1e-3  # seconds of calls that the clock is read around
MOST_IN_A_ROW = 64
ROUNDS = (3, 15)  # fewest and most
GEOMETRIC = ("torch_geometric", "pip install torch-geometric")
PRODUCTS = {
    *(torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm),
    *(torch.ops.aten.convolution, torch.ops.aten.convolution_backward),
}
bandwidth = cache(lambda threads: copy_bandwidth())


@dataclass(frozen=True)
class Problem:
    """What is compared and timed."""

    ours: Library
    # Other libraries, or the command that installs one that is not there.
    peers: Mapping[str, Library | str] = field(default_factory=dict)
    # Computation that cannot be avoided; bytes that a forward pass moves at least, twice as many
    # with gradients; or the layer's own matrix products and convolutions alone.
    bound: Library | int | Literal["products"] | None = None

    def libraries(self) -> dict[str, Library]:
        """Everything that runs, ours first."""
        found = {OURS: self.ours}
        found |= {name: peer for name, peer in self.peers.items() if isinstance(peer, Library)}
        return found | ({BOUND: self.bound} if isinstance(self.bound, Library) else {})


@dataclass(frozen=True)
class Row:
    """A layer on a problem."""

    layer: str  # public name, as mesh.PrimalDualConv
    problem: str  # what tells the row from others of the layer
    make: Callable[[], Problem]
    kinds: tuple[str, ...] = ("forward", "both")
    count: int = 1  # of the unit
    unit: str = "call"
    size: Literal["short", "usual", "large"] = "usual"  # large ones run only where asked for
    why: str = ""  # the reason, in a sentence, if a ratio is below 1
    libraries: tuple[str, ...] = ()  # environments with peers: mace is that of make bench-mace

    @property
    def name(self) -> str:
        """Layer and problem."""
        return f"{self.layer}, {self.problem}"

    @property
    def key(self) -> dict[str, str]:
        """What tells its run from others of a record."""
        return {"layer": self.layer, "problem": self.problem}


def needs(module: str, command: str, make: Callable[[], Library]) -> Library | str:
    """A peer, or the command that installs it."""
    return make() if find_spec(module) else command


class NotInstalledError(ImportError):
    """A library is not there that ours needs as well."""


def require(module: str, command: str) -> None:
    """Raise an error that names the command that installs a library."""
    if not find_spec(module):
        raise NotInstalledError(f"{module} is not installed: {command}")


class Products(TorchDispatchMode):
    """Keep the matrix products and convolutions of a call, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], Any]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func.overloadpacket in PRODUCTS:
            self.calls.append(partial(func, *args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


def own_products(call: Call) -> Call | None:
    """The matrix products and convolutions of a call alone, in their order."""
    with Products() as products:
        call()
    kept = products.calls

    def run() -> tuple[Any, ...]:
        with torch.no_grad():
            for product in kept:
                product()
        return ()

    return run if kept else None


def prepared(row: Row, ours_alone: bool = False) -> tuple[Problem, Compared]:
    """Build a problem and compare all results, in every mode that has a pass."""
    torch.manual_seed(0)
    problem = row.make()
    if ours_alone:
        problem = Problem(problem.ours)
    compared = compare(problem.libraries(), row.kinds)
    if problem.bound == "products":
        found = {kind: own_products(compared.calls[f"{OURS} {kind}"]) for kind in row.kinds}
        calls = {f"{BOUND} {kind}": call for kind, call in found.items() if call is not None}
        compared |= Compared(calls, {})
    return problem, compared


def measure(
    row: Row,
    seconds: float,
    ours_alone: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Compare, then time in turn for about so many seconds; with ratios and memory.

    Raises ``AssertionError`` if a result differs from that of a peer.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers, and of windows of samples
        problem, compared = prepared(row, ours_alone)
        once = {name: timeit(call, number=1) for name, call in compared.calls.items()}
        repeat = min(MOST_IN_A_ROW, ceil(IN_A_ROW / min(once.values())))
        repeat = max(1, min(repeat, int(seconds / (ROUNDS[0] * sum(once.values())))))
        rounds = int(seconds / (repeat * sum(once.values())))
        found = compared.timed(min(max(rounds, ROUNDS[0]), ROUNDS[1]), repeat, clock)
        memory = {} if ours_alone else megabytes(problem, compared, row.kinds)
    return {
        "unit": row.unit,
        "count": row.count,
        "kinds": row.kinds,
        "absent": {name: peer for name, peer in problem.peers.items() if isinstance(peer, str)},
        **shares(problem, medians(found["seconds"]), row.kinds),
        "megabytes": memory,
        **found,
    }


def shares(
    problem: Problem, seconds: Mapping[str, float], kinds: tuple[str, ...]
) -> dict[str, Any]:
    """Ratios of fastest modes to those of peers, and shares of the bound, by pass."""
    ratios: dict[str, dict[str, float]] = {}
    bounds: dict[str, float] = {}
    peers = [name for name in problem.libraries() if name not in (OURS, BOUND)]
    for kind in kinds:
        mine = fastest(seconds, OURS, kind)
        ratios[kind] = {peer: fastest(seconds, peer, kind) / mine for peer in peers}
        if isinstance(problem.bound, int):
            moved = problem.bound * (1 if kind == "forward" else 2)
            bounds[kind] = moved / bandwidth(torch.get_num_threads()) / mine
        elif f"{BOUND} {kind}" in seconds:
            bounds[kind] = seconds[f"{BOUND} {kind}"] / mine
    return {"median seconds": dict(seconds), "ratio": ratios, "share of the bound": bounds}


def megabytes(
    problem: Problem, compared: Compared, kinds: tuple[str, ...]
) -> dict[str, float | None]:
    """Peaks of resident memory beyond what is there before a call of the largest pass."""
    kind = "both" if "both" in kinds else kinds[0]
    keys = {name: f"{name} {kind}" for name in problem.libraries() if name != BOUND}
    ops.limit_result_memory(0)
    try:
        return {
            name: peak_megabytes(compared.calls[key])
            for name, key in keys.items()
            if key in compared.calls
        }
    finally:
        ops.limit_result_memory(KEPT)


def peak_megabytes(call: Call) -> float | None:
    """Resident memory that a call needs at most, results included; None where Linux is not."""
    clear = Path("/proc/self/clear_refs")
    if not clear.exists():
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    clear.write_text("5")  # the peak is now what is resident
    before = resident("VmRSS")
    call()
    return round((resident("VmHWM") - before) / 1e6, 1)


def resident(name: str) -> int:
    """Bytes of a line of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def shown(found: Mapping[str, Any]) -> str:
    """A run in one line: microseconds per unit, ratios, shares of the bound."""
    parts = []
    for kind in found["kinds"]:
        time = 1e6 * fastest(found["median seconds"], OURS, kind) / found["count"]
        ratios = (f"{value:.2f}x {peer}" for peer, value in found["ratio"][kind].items())
        share = found["share of the bound"].get(kind)
        bound = [] if share is None else [f"{share:.0%} of the bound"]
        parts.append(", ".join([f"{kind} {time:.3g} us per {found['unit']}", *ratios, *bound]))
    return "; ".join(parts)


def best_peers(run: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """The fastest peer of each pass, and its time over ours."""
    found = {kind: ratios for kind, ratios in run["ratio"].items() if ratios}
    return {kind: min(ratios.items(), key=lambda one: one[1]) for kind, ratios in found.items()}


def slower(run: Mapping[str, Any]) -> bool:
    """Whether a peer is faster in some pass."""
    return any(ratio < 1 for _, ratio in best_peers(run).values())


def library(call: Callable[..., Any], inputs: list[Any], **options: Any) -> Library:
    """A function as it is."""
    return Library({AS_IT_IS: call}, inputs, **options)
