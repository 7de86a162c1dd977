"""Errors of a potential before and after fine-tuning: what is learned, and what is forgotten.

    python -m bench.fine_tuning runs/3bpa/model.ckpt --data ../shared/data --threads 1 \
        --output bench/results/fine_tuning.json

The first potential was trained on 3BPA at 300 K, by ``bench.potentials`` or ``equigeo train``. It
is fine-tuned on 30 frames at 1200 K: all weights, all weights with replay of its own training
frames, updates of low rank, and read-outs alone. Errors are those of forces on frames of
train_mixedT that neither run has trained on: all at 300 K, and those at 1200 K behind the 40 that
are for training and validation. The number of epochs and the share of replayed frames were chosen
on validation frames of both temperatures; the rate is the default.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.potentials import identity
from bench.recorder import Record, parsed
from equigeo.datasets import AtomicSplit
from equigeo.tasks.potential import (
    InteratomicPotential,
    PotentialData,
    PotentialRunConfig,
    TrainedPotential,
    load_frames,
)

FOLDER, SUBSET, OLD = "botnet_3bpa_acac_ethanol", "3BPA", "train_300K"
TRAINED, HELD_OUT = 30, 10  # frames at 1200 K
# Settings by the name of the run; all have the default rate.
VARIANTS: dict[str, dict[str, Any]] = {
    "all weights": {},
    "replay": {"replay": OLD, "replay_share": 0.75},
    "low rank": {"lora": 4},
    "read-outs": {"freeze": ("body",)},
}


def split(first: TrainedPotential, folder: Path) -> PotentialData:
    """Return the frames to fine-tune on, with those of the first potential."""
    old = load_frames(replace(first.config, data=str(folder / FOLDER), subset=SUBSET))
    hot, number = old.split.tests["1200 K"], TRAINED + HELD_OUT
    tests = {"300 K": old.split.tests["300 K"], "1200 K": hot[number:]}
    new = AtomicSplit("3BPA at 1200 K", hot[:number], tests, old.split.isolated)
    return PotentialData(new, hot[:TRAINED], hot[TRAINED:number], old)


def measured(trained: TrainedPotential, data: PotentialData) -> dict[str, Any]:
    """Return errors of all sets of frames that are not trained on."""
    return {name: trained.errors(frames).summary() for name, frames in data.held_out.items()}


def one_run(config: PotentialRunConfig, data: PotentialData, work: Path) -> dict[str, Any]:
    """Fine-tune once, and evaluate."""
    own = data if config.replay else replace(data, replay=None)
    trained = InteratomicPotential().train(config, work, data=own, overwrite=True, progress=True)
    history = trained.history
    return {"errors": measured(trained, data), "seconds": trained.seconds, "history": history}


def main() -> None:
    """Run what is missing, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("start", type=Path, help="checkpoint trained on 3BPA at 300 K")
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--epochs", type=int, default=150)
    arguments = parsed(parser, work="runs/fine_tuning", required=True, threads=1)
    first = TrainedPotential.load(arguments.start)
    data = split(first, arguments.data)
    start = {
        "sha256": hashlib.sha256(arguments.start.read_bytes()).hexdigest(),
        "epochs": first.epochs_done,
        "train": identity(first.config, arguments.threads)["train"],
    }
    record = Record(arguments.output, settings={"start": start}, resume=arguments.resume)
    runs = [record.keep({"run": "start"}, lambda: {"errors": measured(first, data)})]
    for name, settings in VARIANTS.items():
        options = {
            "data": str(arguments.data / FOLDER), "subset": SUBSET, "validation": HELD_OUT,
            "start_from": str(arguments.start), "epochs": arguments.epochs, "evaluate_every": 10,
            **settings,
        }  # fmt: skip
        work = arguments.work / name.replace(" ", "_")
        config: Any = InteratomicPotential().configure(work, options, overwrite=True)
        key = {"run": name, "threads": arguments.threads, "recipe": config.recipe.to_dict()}
        runs.append(record.keep(key, partial(one_run, config, data, work)))
    for run in runs:
        for name, row in run["errors"].items():
            print(run["run"], name, row)


if __name__ == "__main__":
    main()
