"""A MACE model by its own calculator, accelerated, frozen, and by symmetrix-xl.

In an environment with mace-torch and symmetrix-xl (matscipy, h5py, lmdb and orjson come with
them)::

    python -m bench.mace_peers --atoms 108 500 --threads 1 --output FILE

ScaleShiftMACE, 128x0e+128x1o, max_ell 3, correlation 3, two layers, Cu and Zn, cutoff 5 angstrom,
random weights: energy, forces and stress through the calculators for ASE, in turn. symmetrix-xl
compiles a library for each model before its first result, which is its set-up; both its modes are
timed. Errors are those of forces against MACE in float64, relative to the largest component.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import torch

from bench.recorder import Record, output_arguments
from equigeo.interop import accelerate
from tests.draws import default_dtype
from tests.interop.interatomic import mace

DTYPES = {"float32": torch.float32, "float64": torch.float64}
BASE = "mace"  # the calculator that others are compared with
SYMMETRIX: dict[str, dict[str, Any]] = {
    "symmetrix": {},
    "symmetrix, not compiled": {"streamed_edges": "non-compiled"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, nargs="+", default=[108, 500])
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--rounds", type=int, default=5, help="timed evaluations of each")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    output_arguments(parser, series=True)
    options = parser.parse_args()
    record = Record(options.output, resume=options.resume)
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read by its libraries when loaded
    warnings.simplefilter("ignore")  # theirs
    with TemporaryDirectory() as folder:
        os.environ["SYMMETRIX_JIT_CACHE"] = folder  # it compiles anew
        calculators, setup = made(Path(folder), options.dtype)
        for atoms in options.atoms:
            key = {"atoms": atoms, "dtype": options.dtype, "rounds": options.rounds}
            make = partial(measured, calculators, setup, atoms, options.rounds)
            packages = {name: version(name) for name in ("mace-torch", "symmetrix-xl")}
            result = record.keep(key, make, **packages)
            print(result["atoms"], result["median_seconds"], result["force_errors"])
    if record.runs:
        ratios = {
            f"{run['atoms']} atoms": run["median_seconds"]["symmetrix"]
            / run["median_seconds"]["frozen"]
            for run in record.runs
        }
        record.write({"symmetrix_over_frozen": ratios})


def made(folder: Path, dtype: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Return calculators by name, and the seconds until each is ready."""
    from mace.calculators import MACECalculator
    from mace.modules import ScaleShiftMACE
    from symmetrix.calculator import Symmetrix
    from symmetrix.cli.extract_mace import main as extract

    with mock.patch("mace.modules.MACE", ScaleShiftMACE):
        options: dict[str, Any] = {"atomic_inter_scale": 1.0, "atomic_inter_shift": 0.0}
        exact = mace(torch.float64, elements=("Cu", "Zn"), **options)
    model = copy.deepcopy(exact).to(DTYPES[dtype])
    calculators: dict[str, Any] = {"exact": MACECalculator(models=[exact], device="cpu")}
    setup = {}
    for name, frozen in ((BASE, None), ("accelerated", False), ("frozen", True)):
        with default_dtype(DTYPES[dtype]):
            each = MACECalculator(models=[copy.deepcopy(model)], device="cpu", default_dtype=dtype)
        start = time.perf_counter()
        if frozen is not None:
            accelerate(each.models[0], frozen=frozen)
        setup[name], calculators[name] = time.perf_counter() - start, each
    torch.save(exact, folder / "model.pt")
    path = str(folder / "model.json")
    with mock.patch.object(sys, "argv", ["", "-m", str(folder / "model.pt"), "-o", path]):
        extract()
    for name, settings in SYMMETRIX.items():
        start = time.perf_counter()
        calculators[name] = Symmetrix(path, dtype=dtype, **settings)
        evaluate(calculators[name], crystal(32))
        setup[name] = time.perf_counter() - start
    return calculators, setup


def crystal(atoms: int) -> Any:
    """Return a face-centred cubic crystal of copper and zinc, its atoms moved a little."""
    from ase.build import bulk

    found = bulk("Cu", "fcc", 3.65, cubic=True).repeat(round((atoms / 4) ** (1 / 3)))
    found.numbers[::2] = 30
    found.rattle(0.05, seed=0)
    return found


def evaluate(calculator: Any, atoms: Any) -> dict[str, Any]:
    calculator.calculate(atoms, ["energy", "forces", "stress"], ["positions"])
    return dict(calculator.results)


def measured(
    calculators: dict[str, Any], setup: dict[str, float], count: int, rounds: int
) -> dict[str, Any]:
    atoms = crystal(count)
    want = evaluate(calculators["exact"], atoms)["forces"]
    names = [name for name in calculators if name != "exact"]
    times: dict[str, list[float]] = {name: [] for name in names}
    errors = {}
    for _ in range(1 + rounds):
        for name in names:
            start = time.perf_counter()
            forces = evaluate(calculators[name], atoms)["forces"]
            times[name].append(time.perf_counter() - start)
            errors[name] = float(np.abs(forces - want).max() / np.abs(want).max())
        atoms.positions += 1e-3 * np.sin(np.arange(3 * len(atoms))).reshape(-1, 3)
        want = evaluate(calculators["exact"], atoms)["forces"]
    seconds = {name: each[1:] for name, each in times.items()}
    return {
        "seconds": seconds,
        "median_seconds": {name: statistics.median(each) for name, each in seconds.items()},
        "force_errors": errors,
        "largest_force": float(np.abs(want).max()),
        "setup_seconds": setup,
    }


if __name__ == "__main__":
    main()
