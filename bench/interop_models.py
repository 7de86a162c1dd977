"""Interatomic models before and after ``accelerate``: energy and forces of 500 copper atoms.

Each model runs in an environment of its own, ``make bench-interop`` does all of it. By hand::

    .venv-nequip/bin/python -m bench.interop_models nequip
    .venv-nequip/bin/python -m bench.interop_models allegro --cells 3
    .venv-mace/bin/python -m bench.interop_models mace
    .venv-sevenn/bin/python -m bench.interop_models sevenn

Energy and forces are compared, in float32 and in float64, before a time is worth anything. Times
are of whole evaluations in seconds, the model as it was, accelerated, and frozen in turn.
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
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

from bench.recorder import Record, output_arguments
from equigeo.interop import accelerate
from tests.interop.interatomic import MODELS, Atoms, difference

SAME = {torch.float32: 1e-5, torch.float64: 1e-10}
CELLS = 5
PACKAGES = {
    "nequip": ("nequip", "e3nn", "torch"),
    "allegro": ("nequip-allegro", "nequip", "e3nn", "torch"),
    "mace": ("mace-torch", "e3nn", "torch"),
    "sevenn": ("sevenn", "e3nn", "torch"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("--cells", type=int, default=CELLS, help="of four atoms along each axis")
    parser.add_argument("--rounds", type=int, default=3, help="timed evaluations of each")
    parser.add_argument("--runs", type=int, default=1, help="of all rounds, models made anew")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    output_arguments(parser, series=True)
    options = parser.parse_args()
    record = Record(options.output, resume=options.resume)
    torch.set_num_threads(options.threads)
    packages = {package: version(package) for package in PACKAGES[options.name]}
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


def measure(name: str, rounds: int, cells: int) -> dict[str, Any]:
    build, evaluate = MODELS[name]
    errors = {}
    for dtype, bound in reversed(SAME.items()):  # float32 last, which is timed
        crystal = Atoms.copper(cells, dtype)
        models = {key: build(dtype) for key in ("before", "after", "frozen")}
        report = accelerate(models["after"])
        start = time.perf_counter()
        tables = accelerate(models["frozen"], frozen=True)
        setup = time.perf_counter() - start
        for key in ("after", "frozen"):
            error = difference(models[key], models["before"], crystal, evaluate)
            errors[f"{dtype}, {key}"] = error
            if not error <= bound:
                raise SystemExit(
                    f"{name} in {dtype}, {key}, must agree to {bound}, but differs by {error:.2g}"
                )
    times = timed(models, Atoms.copper(cells, torch.float32), evaluate, rounds)
    medians = {key: statistics.median(values) for key, values in times.items()}
    return {
        "atoms": len(crystal.positions),
        "edges": crystal.edges.shape[1],
        "relative_difference": errors,
        "seconds": times,
        "median_seconds": medians,
        "ratio": medians["before"] / medians["after"],
        "ratio_frozen": medians["before"] / medians["frozen"],
        "setup_seconds": setup,
        "tables": [note.note for note in tables.replaced if "pieces" in note.note],
        "replaced": Counter(note.note for note in report.replaced),
        "kept": [tuple(note) for note in report.kept],
    }


def timed(
    models: dict[str, nn.Module], crystal: Atoms, evaluate: Any, rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {key: [] for key in models}
    for _ in range(1 + rounds):
        for key, model in models.items():
            start = time.perf_counter()
            evaluate(model, crystal)
            times[key].append(time.perf_counter() - start)
    return {key: seconds[1:] for key, seconds in times.items()}  # TorchScript compiles in the first


if __name__ == "__main__":
    main()
