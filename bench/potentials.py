"""Errors of one potential on one set after given minutes of training.

    python -m bench.potentials --data ../shared/data --set ethanol --product channelwise \
        --minutes 15 --threads 2 --output bench/results/potentials.json

Sets are ethanol and aspirin of rMD17 (950 training frames and 50 for validation, errors on the
official 1,000), 3BPA (trained at 300 K, errors at 300, 600 and 1200 K on the frames of train_mixedT
that are not trained on, which are not the official ones), and crystals of mlearn. The schedule
follows elapsed time, evaluations not counted; the weights that are evaluated are the running
average at the end of the run. Nothing is selected on test frames.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from bench.recorder import Record, chosen, parsed
from equigeo.potentials.config import NodeName, ProductName
from equigeo.tasks.potential import (
    InteratomicPotential,
    PotentialRunConfig,
    evaluate_potential,
    load_frames,
)
from equigeo.tasks.potential.data import UNKNOWN_EARLIER

# Folder, name of the set in it, preset, and settings that differ from it.
SETS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "ethanol": ("rmd17", "ethanol", "default", {}),
    "aspirin": ("rmd17", "aspirin", "default", {"lmax_edge": 2}),
    "3BPA": ("botnet_3bpa_acac_ethanol", "3BPA", "default", {"lmax_edge": 2}),
    "acac": ("botnet_3bpa_acac_ethanol", "acac", "default", {}),
    **{element: ("mlearn_periodic", element, "crystal", {}) for element in ("Mo", "Si", "Ge")},
    "Li": ("mlearn_periodic", "Li", "crystal", {"stress_weight": 0.0}),
}
# Settings of the run that the command line may change.
SETTINGS = (
    *("channels", "lmax_edge", "lmax_hidden", "energy_weight", "huber_delta"),
    *("seed", "compile", "product", "node", "evaluate_every"),
)


def configure(data: Path, name: str, recipe: dict[str, Any], **given: Any) -> PotentialRunConfig:
    """Return the preset of a set, with changes of its recipe and settings."""
    folder, subset, preset, settings = SETS[name]
    base = PotentialRunConfig.of_preset(str(data / folder), preset)
    settings = settings | given
    return replace(base, recipe=replace(base.recipe, **recipe), subset=subset, **settings)


def identity(config: PotentialRunConfig, threads: int) -> dict[str, Any]:
    """What two records have in common if one need not be made again."""
    settings = config.to_dict()
    settings["data"] = Path(config.data).name  # wherever it lies
    # as in records that were made before there was a choice
    earlier = {"compile": False, **UNKNOWN_EARLIER}
    settings = {n: value for n, value in settings.items() if value != earlier.get(n, settings)}
    return {"train": settings, "threads": threads}


def one_run(config: PotentialRunConfig, work: Path) -> dict[str, Any]:
    """Train once, and evaluate on every test set."""
    data = load_frames(config)
    trained = InteratomicPotential().train(config, work, data=data, overwrite=True, progress=True)
    evaluation = evaluate_potential(trained, data)
    frames = len(data.train)
    per_epoch = -(-frames // config.recipe.batch_size)
    whole = trained.history[:-1]  # the last epoch is cut short
    seconds = sum(line["seconds"] for line in whole)
    return {
        "errors": evaluation.sets,
        "errors by species": evaluation.species,
        "remark": evaluation.remark,
        "training frames": frames,
        "parameters": sum(p.numel() for p in trained.model.parameters()),
        "milliseconds per step": 1e3 * seconds / (per_epoch * len(whole)) if whole else None,
        "epochs": trained.epochs_done,
        "seconds": trained.seconds,
        "history": trained.history,
    }


def main() -> None:
    """Run what is missing, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--set", choices=tuple(SETS), required=True)
    parser.add_argument("--product", choices=get_args(ProductName), default="channelwise")
    parser.add_argument("--node", choices=get_args(NodeName), default="contraction")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--lmax-edge", type=int)
    parser.add_argument("--lmax-hidden", type=int)
    parser.add_argument("--energy-weight", type=float)
    parser.add_argument("--huber-delta", type=float)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--compile", action="store_true", help="compile the training step")
    parser.add_argument("--evaluate-every", type=int, default=10)
    arguments = parsed(parser, work="runs/potentials", required=True, threads=2)
    recipe = chosen(arguments, "minutes", "learning_rate")
    config = configure(arguments.data, arguments.set, recipe, **chosen(arguments, *SETTINGS))
    name = f"{arguments.set}-{arguments.product}-{arguments.node}-{arguments.seed}"
    same = identity(config, arguments.threads)
    record = Record(arguments.output, resume=arguments.resume)
    run = record.keep(same, lambda: one_run(config, arguments.work / name))
    for name, row in run["errors"].items():
        print(arguments.set, arguments.product, name, row)


if __name__ == "__main__":
    main()
