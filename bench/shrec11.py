"""Accuracy of the mesh classifier on SHREC'11, every run listed.

    python -m bench.shrec11 --data ../shared/data/shrec11_meshcnn/shrec_16.tar.gz \
        --split 16 --runs 5 --output bench/results/shrec11_split16_default.json

On split 16 run ``i`` has seed ``i`` on the shipped division; on splits 10 and 5 it is draw ``i``,
seed ``i``. Initial weights are drawn after ``torch.manual_seed(i)``, because a variant is no
preset; ``equigeo train --seed i`` draws others.

Nothing is selected on test meshes: the weights are those of the last epoch. ``--holdout 4``
evaluates on training meshes that were held out instead (12 train, 4 test per class), which is what
settings may be chosen on. ``--variant`` takes one of the settings of the ablation.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from bench.recorder import Record, chosen, going_on, parsed
from equigeo.datasets import MeshDataset, load_mesh_folder
from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshClassification,
    MeshConfig,
    evaluate_mesh_classifier,
)
from equigeo.tasks.mesh_classification.run import split_meshes

SETTINGS = ("split", "preset", "variant", "holdout", "epochs", "threads")  # of a series
NO_POOLING: tuple[None, ...] = (None, None, None, None)
VARIANTS: dict[str, dict[str, Any]] = {  # what differs from the preset
    "as preset": {},
    "without pooling": {"model": {"keep": NO_POOLING}},
    "pooling twice": {"model": {"keep": (None, 0.8, 0.8, None)}},
    "mean instead of attention": {"uniform attention": True},
    "primal to dual coupling": {"model": {"coupling": True}},
    "dual read-out": {"model": {"streams": "dual"}},
    "primal read-out": {"model": {"streams": "primal"}},
    "reference features": {"model": {"features": "reference"}},
}


def main() -> None:
    """Run the series and write the table after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("16", "10", "5"), default="16")
    parser.add_argument("--preset", choices=("default", "paper"), default="default")
    parser.add_argument("--variant", choices=tuple(VARIANTS), default="as preset")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--holdout", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    arguments = parsed(parser, work="runs/shrec11", required=True, threads=0)
    record = Record.series(arguments, *SETTINGS)
    dataset = load_mesh_folder(arguments.data)
    for number in range(arguments.runs):
        run = record.keep({"number": number}, partial(one_run, arguments, dataset, number))
        print(json.dumps({k: v for k, v in run.items() if k != "settings"}))
    accuracy = mean(run["accuracy"] for run in record.runs)
    record.write({"mean accuracy": accuracy})
    print("mean accuracy", accuracy)


def one_run(arguments: argparse.Namespace, dataset: MeshDataset, number: int) -> dict[str, Any]:
    """Train once, evaluate on the test meshes and on transformed copies of them."""
    config = run_config(arguments, number)
    variant = VARIANTS[arguments.variant]
    torch.manual_seed(number)
    model = PrimalDualClassifier.preset(
        arguments.preset, dataset.num_classes, **variant.get("model", {})
    )
    if variant.get("uniform attention"):
        freeze_attention(model)
    run = going_on(arguments, arguments.output.stem, f"run-{number}")
    start = time.perf_counter()
    classifier = MeshClassification().train(config, data=dataset, model=model, **run)
    seconds = time.perf_counter() - start
    _, test = split_meshes(dataset, config)
    evaluation = evaluate_mesh_classifier(classifier, dataset, test)
    pairs = zip(evaluation.names, evaluation.labels, evaluation.predictions, strict=True)
    return {
        "seed": config.seed,
        "split index": config.split_index,
        "accuracy": evaluation.accuracy,
        "test meshes": len(test),
        "errors": [
            f"{name} as {dataset.classes[seen]}" for name, true, seen in pairs if true != seen
        ],
        "predictions changed": {copy.kind: len(copy.changed) for copy in evaluation.copies},
        "largest change of a probability": {
            copy.kind: copy.largest_difference for copy in evaluation.copies
        },
        "training seconds": sum(epoch["seconds"] for epoch in classifier.history),
        "seconds of this session": seconds,
        "seconds per epoch": median(epoch["seconds"] for epoch in classifier.history),
        "epochs": config.recipe.epochs,
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in classifier.model.parameters()),
        "settings": {"train": config.to_dict(), "model": model.config.to_dict()},
    }


def freeze_attention(model: PrimalDualClassifier) -> None:
    """Let every neighbor weigh the same, for good: the layer without its attention."""
    for name, parameter in model.named_parameters():
        if name.endswith("_attention"):
            torch.nn.init.zeros_(parameter).requires_grad_(False)


def run_config(arguments: argparse.Namespace, number: int) -> MeshConfig:
    """Configuration of one run of the series."""
    return MeshConfig(
        data=arguments.data.name,
        split=arguments.split,
        split_index=0 if arguments.split == "16" else number,
        holdout=arguments.holdout,
        preset=arguments.preset,
        recipe=replace(MESH_RECIPES[arguments.preset], **chosen(arguments, "epochs")),
        seed=number,
    )


if __name__ == "__main__":
    main()
