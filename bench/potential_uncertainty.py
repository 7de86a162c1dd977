"""Calibration and cost of the uncertainties of a potential from its last layers.

    python -m bench.potential_uncertainty runs/3bpa/model.ckpt --data ../shared/data --threads 1 \
        --output bench/results/potential_uncertainty.json

The potential was trained on 3BPA at 300 K, by ``bench.potentials`` or ``equigeo train``. Scales are
those of its validation frames at 300 K; frames of train_mixedT at each temperature are evaluated.
The method was chosen on the frames at 600 K. The rank correlation is Spearman's, of standard
deviations and norms of force errors of atoms, and of root mean squares over each frame. Times of
the processor are medians of interleaved calls of the copy that calculators evaluate.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from scipy.stats import spearmanr

from bench.interleaved import all_rounds, medians
from bench.recorder import Record, parsed
from equigeo.datasets import AtomicFrame, AtomicFrames
from equigeo.datasets.atoms.frames import symbol
from equigeo.potentials.frozen import frozen
from equigeo.tasks.potential import AtomicSource, TrainedPotential, load_frames
from equigeo.tasks.potential.errors import fit_uncertainty

FOLDER, SUBSET = "botnet_3bpa_acac_ethanol", "3BPA"
LEVELS = (0.5, 0.6827, 0.8, 0.9, 0.9545, 0.99)
SPACING = 9.0  # angstrom, between copies in the large system


def calibration(trained: TrainedPotential, frames: AtomicFrames) -> dict[str, Any]:
    """Return errors, shares within intervals of each level, and rank correlations."""
    found: Any = trained.errors(frames)
    errors = (found.forces - found.forces_label).double()
    energies = (found.energy - found.energy_label).abs() / found.energy_uncertainty
    ratios = errors.abs() / found.forces_uncertainty[:, None]
    size, sigma = errors.norm(dim=1), found.forces_uncertainty
    widths = [NormalDist().inv_cdf(0.5 + level / 2) for level in LEVELS]
    counts = found.counts.tolist()
    means = [[x.square().mean() for x in values.split(counts)] for values in (size, sigma)]
    elements = {z: found.numbers == z for z in found.numbers.unique().tolist()}
    return {
        "summary": found.summary(),
        "levels": LEVELS,
        "energies within": [(energies <= width).double().mean().item() for width in widths],
        "forces within": [(ratios <= width).double().mean().item() for width in widths],
        "correlation of atoms": rank_correlation(size, sigma),
        "correlation of frames": rank_correlation(*means),
        "correlation by element": {
            symbol(z): rank_correlation(size[own], sigma[own]) for z, own in elements.items()
        },
    }


def rank_correlation(a: Any, b: Any) -> float:
    return float(spearmanr(a, b).statistic)


def systems(frames: AtomicFrames) -> dict[str, AtomicFrames]:
    """Return one molecule, a batch of ten, and 32 on a grid as one system."""
    places = torch.cartesian_prod(*(torch.arange(n) for n in (4, 4, 2))).double() * SPACING
    moved = [frames[k % len(frames)] for k in range(len(places))]
    grid = AtomicFrame(
        torch.cat([frame.numbers for frame in moved]),
        torch.cat([f.positions + place for f, place in zip(moved, places, strict=True)]),
    )
    return {"one": frames[:1], "ten": frames[:10], "grid": AtomicFrames((grid,))}


def cost(trained: TrainedPotential, frames: AtomicFrames, rounds: int) -> dict[str, Any]:
    """Return seconds of the processor for energies and forces without and with uncertainties."""
    source = AtomicSource.of_frames(frames, trained.model.config.cutoff)
    batch = source.batch(range(len(frames))).inputs.atoms
    model, uncertainty = frozen(trained.model), trained.uncertainty
    calls = {
        "plain": lambda: model(batch),
        "uncertain": lambda: uncertainty(model(batch, features=True), batch),
    }
    times = medians(all_rounds(calls, rounds, time.process_time))
    return {"atoms": len(batch.numbers), "systems": batch.num_systems, **times,
            "ratio": times["uncertain"] / times["plain"]}  # fmt: skip


def main() -> None:
    """Measure all sets and systems, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("start", type=Path, help="checkpoint trained on 3BPA at 300 K")
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parsed(parser, threads=1)
    trained = TrainedPotential.load(arguments.start)
    config = replace(trained.config, data=str(arguments.data / FOLDER), subset=SUBSET)
    data = load_frames(config)
    if trained.uncertainty is None:  # of an earlier version
        parts = (AtomicSource.of_frames(x, config.cutoff) for x in (data.train, data.validation))
        trained = replace(trained, novelty=fit_uncertainty(*([x] for x in parts), trained.model))
    record = Record(arguments.output)
    sets = {name: calibration(trained, frames) for name, frames in data.held_out.items()}
    hot = data.split.tests["1200 K"]
    times = {name: cost(trained, x, arguments.rounds) for name, x in systems(hot).items()}
    start = {
        "sha256": hashlib.sha256(arguments.start.read_bytes()).hexdigest(),
        "epochs": trained.epochs_done,
        "recipe": config.recipe.to_dict(),
        "model": trained.model.config.to_dict(),
    }
    record.write({"start": start, "sets": sets, "times": times})
    for name, row in {**sets, **times}.items():
        print(name, row)


if __name__ == "__main__":
    main()
