"""Neighbor lists from every backend, beside the libraries alone, in one process.

    python -m bench.neighbors --output bench/results/neighbors.json

Needs ``pip install vesin matscipy``; torch-cluster, if installed, is a column, too. Lists of all
backends are compared, to the last bit, before anything is timed. Times are of interleaved rounds,
all of which are kept: seconds of the processor, which other work on the machine disturbs less,
beside those of the clock. ``alone`` are calls of the other libraries, with their own vectors,
without the order and the predicate of this one.
Memory is measured in processes of their own, as the growth of the largest resident size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from bench.recorder import Record, output_arguments
from equigeo.graphs import NeighborList, neighbor_list
from equigeo.graphs.backend_choice import BACKENDS, require_package

CUTOFF = 5.0
COPPER = 3.615
CELLS = {"108": 3, "864": 6, "97556": 29}  # atoms: cubic cells along each axis


def crystal(cells: int) -> tuple[Tensor, Tensor]:
    """Copper with every atom moved a little, as in a simulation."""
    fcc = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    steps = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    positions = COPPER * (steps + fcc).reshape(-1, 3)
    positions += np.random.default_rng(cells).normal(scale=0.05, size=positions.shape)
    return torch.from_numpy(positions), COPPER * cells * torch.eye(3, dtype=torch.float64)


def usable(periodic: bool) -> list[str]:
    names = []
    for name, backend in BACKENDS.items():
        if name == "brute" or (periodic and not backend.periodic):
            continue
        try:
            if backend.module is not None:
                require_package(backend)
        except ImportError:
            continue
        names.append(name)
    return names


def alone(positions: Tensor, cell: Tensor, periodic: bool) -> dict[str, Callable[[], Any]]:
    """Calls of the libraries as their users write them, vectors included."""
    x, box, flags = positions.numpy(), cell.numpy(), np.full(3, periodic)
    found: dict[str, Callable[[], Any]] = {}
    if find_spec("vesin"):
        from vesin import NeighborList as Vesin

        def vesin(ordered: bool) -> Callable[[], Any]:
            def call() -> Any:
                search = Vesin(cutoff=CUTOFF, full_list=True, sorted=ordered, n_threads=1)
                return search.compute(points=x, box=box, periodic=flags, quantities="ijSD")

            return call

        found["vesin alone"] = vesin(False)
        found["vesin alone, sorted by source"] = vesin(True)
    if find_spec("matscipy"):
        from matscipy.neighbours import neighbour_list

        found["matscipy alone"] = lambda: neighbour_list(
            "ijSD", positions=x, cell=box, pbc=flags, cutoff=CUTOFF
        )
    return found


def measure(atoms: str, periodic: bool, rounds: int) -> dict[str, Any]:
    positions, cell = crystal(CELLS[atoms])

    def by(name: str) -> Callable[[], NeighborList]:
        return lambda: neighbor_list(positions, CUTOFF, cell, periodic, backend=name)

    sides: dict[str, Callable[[], Any]] = {name: by(name) for name in usable(periodic)}
    first = sides["scipy"]()
    for name, call in sides.items():
        found = call()
        for part in ("edge_index", "shifts", "vectors"):
            if not torch.equal(getattr(found, part), getattr(first, part)):
                raise SystemExit(f"{part} of {name} differ")
    sides |= alone(positions, cell, periodic)
    for name, call in alone(positions, cell, periodic).items():
        if len(call()[0]) != first.num_edges:
            raise SystemExit(f"{name} has another number of edges")
    edges = first.num_edges
    del first, found
    clock, spent = rounds_of(sides, rounds)
    least = {name: min(values) for name, values in spent.items()}
    best = min(least[name] for name in usable(periodic))
    return {
        "atoms": len(positions),
        "periodic": periodic,
        "edges": edges,
        "milliseconds of the processor, least": least,
        "milliseconds of the clock, least": {name: min(v) for name, v in clock.items()},
        "milliseconds of the clock, median": {name: median(v) for name, v in clock.items()},
        "auto over the best backend": round(least["scipy"] / best, 3),
        "rounds of the processor": spent,
        "rounds of the clock": clock,
    }


Rounds = dict[str, list[float]]


def rounds_of(sides: dict[str, Callable[[], Any]], rounds: int) -> tuple[Rounds, Rounds]:
    """Milliseconds of each call in each round, by the clock and of the processor."""
    clock: Rounds = {name: [] for name in sides}
    spent: Rounds = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            start, busy = time.perf_counter(), time.process_time()
            call()
            clock[name].append(round(1e3 * (time.perf_counter() - start), 3))
            spent[name].append(round(1e3 * (time.process_time() - busy), 3))
    return clock, spent


def peak_bytes(name: str) -> dict[str, float]:
    """Largest growth of a process of its own, for each edge."""
    command = [sys.executable, "-m", "bench.neighbors", "--memory-of", name]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def print_memory(name: str) -> None:
    neighbor_list(*crystal_arguments("864"), backend=name)
    arguments = crystal_arguments("97556")
    before = peak_resident()
    edges = neighbor_list(*arguments, backend=name).num_edges
    grown = peak_resident() - before
    print(json.dumps({"edges": edges, "bytes per edge": round(grown / edges, 1)}))


def peak_resident() -> int:
    """Bytes of this process; what the system keeps for children includes their parents'."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def crystal_arguments(atoms: str) -> tuple[Tensor, float, Tensor]:
    positions, cell = crystal(CELLS[atoms])
    return positions, CUTOFF, cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    output_arguments(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-of")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory_of:
        print_memory(options.memory_of)
        return
    if options.output is None:
        parser.error("--output is needed")
    names = usable(False)
    packages = [BACKENDS[name].package for name in names if BACKENDS[name].package]
    record = Record(options.output)
    report = {
        "threads": torch.get_num_threads(),
        "libraries": {"scipy": scipy.__version__} | {name: version(name) for name in packages},
        "cutoff": CUTOFF,
        "peak memory, periodic": {name: peak_bytes(name) for name in usable(True)},
        "rows": [
            measure(atoms, periodic, options.rounds if atoms == "97556" else 10 * options.rounds)
            for atoms in CELLS
            for periodic in (True, False)
        ],
    }
    record.write(report)


if __name__ == "__main__":
    main()
