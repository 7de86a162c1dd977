"""Do vectors that turn with the mesh, or masked attention, improve the default mesh classifier?

    python -m bench.mesh_beyond --data ../shared/data/psb19/psb19_f1000.npz --holdout 3 \
        --output bench/results/mesh_beyond.json

On the Princeton benchmark as in ``bench/mesh_resolution.py``: nineteen classes, ten training shapes
a class (draw 0 of split 10), weights of the last epoch. With ``--holdout 3`` three of them are put
aside and evaluated on, which is what the choice is made on; without, the test shapes are, at three
resolutions. All variants have the recipe of the default preset, all of its epochs unless
``--epochs`` says otherwise. With ``--resume`` finished runs are kept; seeds are in the outer loop,
so that what is finished compares all variants.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.mesh_resolution import FACTORS, at_resolution, load, share_right
from bench.mesh_variants import AttentionClassifier, VectorClassifier
from bench.recorder import Record, going_on, output_arguments, work_folder
from equigeo.datasets import MeshDataset
from equigeo.mesh import ClassifierConfig, PrimalDualClassifier
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshClassification,
    MeshConfig,
    TrainedMeshClassifier,
)
from equigeo.tasks.mesh_classification.data import split_meshes

Build = Callable[[ClassifierConfig], PrimalDualClassifier]

VARIANTS: dict[str, Build] = {
    "default": PrimalDualClassifier,
    "vectors in the first block": lambda config: VectorClassifier(config, branches=1),
    "vectors in all blocks before pooling": VectorClassifier,
    "one block of attention within 2 hops": lambda config: AttentionClassifier(
        config, hops=(1, 2), blocks=1
    ),
    "two blocks of attention within 3 hops": AttentionClassifier,
    "two blocks of attention at 1, 3 and 5 hops": lambda config: AttentionClassifier(
        config, hops=(1, 3, 5)
    ),
}


def task_of(build: Build) -> MeshClassification:
    """The task with checkpoints that are read back into a variant."""

    class Trained(TrainedMeshClassifier):
        @classmethod
        def build(cls, model: dict[str, Any], config: Any) -> PrimalDualClassifier:
            return build(ClassifierConfig.from_dict(model))

    class Variant(MeshClassification):
        trained_type = Trained

    return Variant()


def one_run(
    arguments: argparse.Namespace, data: MeshDataset, variant: str, seed: int
) -> dict[str, Any]:
    """Train once and evaluate, on held-out shapes at the resolution of training alone."""
    recipe = MESH_RECIPES["default"]
    if arguments.epochs:
        recipe = replace(recipe, epochs=arguments.epochs)
    config = MeshConfig("memory", recipe=recipe, split="10", seed=seed, holdout=arguments.holdout)
    torch.manual_seed(seed)
    model = VARIANTS[variant](ClassifierConfig(data.num_classes))
    name = f"{variant.replace(' ', '-')}-{arguments.holdout}-{recipe.epochs}"
    folder = work_folder(arguments.work) / name / f"run-{seed}"
    trained = task_of(VARIANTS[variant]).train(
        config, folder, data=data, model=model, **going_on(arguments)
    )
    _, test = split_meshes(data, config)
    return {
        "accuracy": {
            faces: share_right(trained, data, test, at_resolution(data, test, faces))
            for faces in FACTORS
            if FACTORS[faces] == 1 or not arguments.holdout
        },
        "evaluated shapes": len(test),
        "seconds per epoch": median(line["seconds"] for line in trained.history),
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train": config.to_dict(),
    }


def main() -> None:
    """Run what is missing, and write after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--variants", nargs="+", choices=tuple(VARIANTS), default=tuple(VARIANTS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--holdout", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--work", type=Path, default=Path("runs/mesh_beyond"))
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output, resume=arguments.resume)
    data = load(arguments.data)
    epochs = arguments.epochs or MESH_RECIPES["default"].epochs
    for seed in range(arguments.runs):
        for variant in arguments.variants:
            key = {"variant": variant, "seed": seed}
            key |= {"holdout": arguments.holdout, "epochs": epochs}
            run = record.keep(key, partial(one_run, arguments, data, variant, seed))
            print(variant, seed, run["accuracy"], flush=True)


if __name__ == "__main__":
    main()
