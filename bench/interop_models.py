"""Interatomic models before and after ``accelerate``: energy and forces of 500 copper atoms.

Each model runs in an environment of its own, ``make bench-interop`` does all of it. By hand::

    .venv-nequip/bin/python -m bench.interop_models nequip
    .venv-nequip/bin/python -m bench.interop_models allegro --cells 3
    .venv-mace/bin/python -m bench.interop_models mace
    .venv-sevenn/bin/python -m bench.interop_models sevenn --cells 3
    .venv-sevenn/bin/python -m bench.interop_models 7net-0 --cells 3

Energy and forces are compared before a time is worth anything: in float64 with the original, in
float32 with the original in float64, from which a replacement may differ by half more than the
original in float32. Pretrained models of SevenNet, ``7net-0`` and ``7net-l3i5``, exist in float32
alone and are compared with themselves; their calculator also computes the stress. Times are of
whole evaluations in seconds, the model as it was, accelerated, and frozen in turn.
``--output FILE`` keeps them. Results of many megabytes are mapped page by page by the C library's
allocator, for all alike; one that keeps memory is ``MALLOC_MMAP_THRESHOLD_=4294967296
MALLOC_TRIM_THRESHOLD_=4294967296``, which the file records.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bench.recorder import Record, output_arguments
from equigeo.interop import accelerate
from equigeo.interop.certificate import AccelerationReport
from tests.interop.interatomic import MODELS, SPACING, Atoms

SAME = 1e-10  # in float64, relative
PRETRAINED = ("7net-0", "7net-l3i5")
PRETRAINED_SAME = 7e-5  # relative, of forces that cancel, as in tests/interop/test_interatomic.py
KEYS = ("before", "after", "frozen")
CELLS = 5
PACKAGES = {
    "nequip": ("nequip", "e3nn", "torch"),
    "allegro": ("nequip-allegro", "nequip", "e3nn", "torch"),
    "mace": ("mace-torch", "e3nn", "torch"),
    "sevenn": ("sevenn", "e3nn", "torch"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=(*MODELS, *PRETRAINED))
    parser.add_argument("--cells", type=int, default=CELLS, help="of four atoms along each axis")
    parser.add_argument("--rounds", type=int, default=3, help="timed evaluations of each")
    parser.add_argument("--runs", type=int, default=1, help="of all rounds, models made anew")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    output_arguments(parser, series=True)
    options = parser.parse_args()
    record = Record(options.output, resume=options.resume)
    torch.set_num_threads(options.threads)
    packages = {
        package: version(package) for package in PACKAGES.get(options.name, PACKAGES["sevenn"])
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        for number in range(options.runs):
            key = {"model": options.name, "rounds": options.rounds, "run": number}
            key |= {} if options.cells == CELLS else {"cells": options.cells}
            result = record.keep(
                key, lambda: measure(options.name, options.rounds, options.cells), **packages
            )
            print(json.dumps(result, indent=1))
    if record.runs:
        ratios = {key: sorted(run[key] for run in record.runs) for key in ("ratio", "ratio_frozen")}
        medians = {key: statistics.median(values) for key, values in ratios.items()}
        record.write(
            {**medians, "ratios": ratios["ratio"], "ratios_frozen": ratios["ratio_frozen"]}
        )


Results = tuple[Tensor, ...]  # energy, forces and maybe the stress


class Trio(NamedTuple):
    """A model as it was, accelerated, and frozen."""

    calls: Mapping[str, Callable[[], Results]]
    reports: dict[str, AccelerationReport]
    setup: float  # seconds to freeze


def measure(name: str, rounds: int, cells: int) -> dict[str, Any]:
    rounded = Atoms.copper(cells, torch.float32)
    if name in PRETRAINED:
        trio = pretrained(name, cells)
        errors = {"torch.float32": errors_of(trio, trio.calls["before"](), PRETRAINED_SAME)}
    else:
        wide = [x.double() for x in (rounded.positions, rounded.shifts)]
        crystal = replace(rounded, positions=wide[0], shifts=wide[1])
        build, evaluate = MODELS[name]
        exact = build(torch.float64)
        want, errors = evaluate(exact, crystal), {}
        for dtype, atoms in ((torch.float64, crystal), (torch.float32, rounded)):
            models = {key: build(dtype) for key in KEYS}
            for model in models.values():
                model.load_state_dict(exact.state_dict())
            trio = trio_of(models, {k: partial(evaluate, m, atoms) for k, m in models.items()})
            errors[str(dtype)] = errors_of(trio, want, SAME)
    times = timed(trio.calls, rounds)
    medians = {key: statistics.median(values) for key, values in times.items()}
    return {
        "atoms": len(rounded.positions),
        "edges": rounded.edges.shape[1],
        "relative_errors": errors,
        "seconds": times,
        "median_seconds": medians,
        "ratio": medians["before"] / medians["after"],
        "ratio_frozen": medians["before"] / medians["frozen"],
        "setup_seconds": trio.setup,
        "tables": [n.note for n in trio.reports["frozen"].replaced if "pieces" in n.note],
        "replaced": Counter(note.note for note in trio.reports["after"].replaced),
        "kept": [tuple(note) for note in trio.reports["after"].kept],
    }


def trio_of(models: dict[str, nn.Module], calls: Mapping[str, Callable[[], Results]]) -> Trio:
    """Accelerate the second model and freeze the third."""
    reports = {"after": accelerate(models["after"])}
    start = time.perf_counter()
    reports["frozen"] = accelerate(models["frozen"], frozen=True)
    return Trio(calls, reports, time.perf_counter() - start)


def pretrained(name: str, cells: int) -> Trio:
    """Return calculators for a crystal of copper."""
    from ase.build import bulk
    from sevenn.calculator import SevenNetCalculator

    atoms = bulk("Cu", "fcc", SPACING, cubic=True).repeat(cells)
    atoms.rattle(0.05, seed=0)
    calculators = {key: SevenNetCalculator(name, device="cpu") for key in KEYS}

    def call(calculator: Any) -> Results:
        calculator.calculate(atoms)
        found = [calculator.results[key] for key in ("energy", "forces", "stress")]
        return tuple(torch.as_tensor(x, dtype=torch.float64) for x in found)

    calls = {key: partial(call, calculator) for key, calculator in calculators.items()}
    return trio_of({key: each.model for key, each in calculators.items()}, calls)


def errors_of(trio: Trio, want: Results, same: float) -> dict[str, float]:
    """Return the largest errors relative to the largest component, or stop if one is too large."""
    errors = {}
    for key, call in trio.calls.items():
        pairs = zip(call(), want, strict=True)
        errors[key] = max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs)
        bound = same + 1.5 * errors["before"]
        if not errors[key] <= bound:
            raise SystemExit(
                f"{key} must be exact to {bound:.2g}, but differs by {errors[key]:.2g}"
            )
    return errors


def timed(calls: Mapping[str, Callable[[], Results]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(1 + rounds):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            times[key].append(time.perf_counter() - start)
    return {key: seconds[1:] for key, seconds in times.items()}  # TorchScript compiles in the first


if __name__ == "__main__":
    main()
