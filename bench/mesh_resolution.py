"""Accuracy of the mesh classifier on the Princeton benchmark, at several resolutions and damaged.

    python -m bench.mesh_resolution --data ../shared/data/psb19/psb19_f1000.npz \
        --output bench/results/mesh_resolution.json

Nineteen classes, ten training shapes per class (draw 0 of split 10), seeds 0 to 2; the weights are
those of the last epoch. The network is trained at the 1,000 faces of the data and evaluated on the
test shapes at 1,000 faces, at 500 (simplified) and at 2,500 (subdivided and simplified), drawn from
seed 0, and at 1,000 faces with ``--draws`` draws of each kind of damage. Nothing is selected on
test shapes; ``--holdout 3`` evaluates on training shapes that were held out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.recorder import Record, chosen, going_on, parsed
from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier, TriangleMesh, damage
from equigeo.mesh.subdivide import with_resolution
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshClassification,
    MeshConfig,
    TrainedMeshClassifier,
)
from equigeo.tasks.mesh_classification.run import split_meshes
from equigeo.training.process import derived_generator

FACTORS = {"1000": 1.0, "500": 0.5, "2500": 2.5}
DAMAGES = {
    "hole of 10 %": {"hole": 0.1},
    "hole of 20 %": {"hole": 0.2},
    "noise of 20 % of an edge": {"noise": 0.2},
    "noise of 40 % of an edge": {"noise": 0.4},
    "debris of 2 %": {"debris": 0.02},
}

# What differs from the default preset and its recipe.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "means not weighted by area": {"model": {"area_weighted": False}},
    "two resolutions in training": {"recipe": {"resolutions": (0.5, 2.5)}},
    "damaged versions in training": {"recipe": {"damaged": 8, "epochs": 60}},
    "features of one ring": {"model": {"features": "invariant"}},
}


def load(path: Path) -> MeshDataset:
    """Read the shapes; which are for training is a matter of the split."""
    with np.load(path, allow_pickle=False) as data:
        vertices = np.split(data["vertices"].astype(np.float64), data["vertex_offset"][1:-1])
        faces = np.split(data["faces"].astype(np.int64), data["face_offset"][1:-1])
        labels = torch.from_numpy(data["label"].astype(np.int64))
    return MeshDataset(
        meshes=tuple(TriangleMesh(*pair) for pair in zip(vertices, faces, strict=True)),
        labels=labels,
        classes=tuple(f"class {k}" for k in range(int(labels.max()) + 1)),
        names=tuple(f"shape {k}" for k in range(len(labels))),
        in_train=torch.ones(len(labels), dtype=torch.bool),
    )


def at_resolution(data: MeshDataset, test: Tensor, faces: str) -> list[TriangleMesh]:
    """Test shapes at another number of faces, the same for every model."""
    factor = FACTORS[faces]
    if factor == 1:
        return [data.meshes[i] for i in test.tolist()]
    return [
        with_resolution(data.meshes[i], factor, derived_generator(0, faces, i))
        for i in test.tolist()
    ]


def damaged_shapes(data: MeshDataset, test: Tensor, kind: str, draw: int) -> list[TriangleMesh]:
    """Damaged test shapes, the same for every model."""
    return [
        damage(data.meshes[i], **DAMAGES[kind], generator=derived_generator(0, kind, draw, i))
        for i in test.tolist()
    ]


def share_right(
    trained: TrainedMeshClassifier, data: MeshDataset, test: Tensor, meshes: list[TriangleMesh]
) -> float:
    """Accuracy on some versions of the test shapes."""
    seen = trained.logits(meshes).argmax(dim=1)
    return (seen == data.labels[test]).double().mean().item()


def one_run(arguments: argparse.Namespace, data: MeshDataset, seed: int) -> dict[str, Any]:
    """Train once, and evaluate at every resolution."""
    variant = VARIANTS[arguments.variant]
    changes = variant.get("recipe", {}) | chosen(arguments, "epochs")
    recipe = replace(MESH_RECIPES["default"], **changes)
    config = MeshConfig("memory", recipe=recipe, split="10", seed=seed, holdout=arguments.holdout)
    torch.manual_seed(seed)
    model = PrimalDualClassifier.preset("default", data.num_classes, **variant.get("model", {}))
    run = going_on(arguments, arguments.variant.replace(" ", "-"), f"run-{seed}")
    trained = MeshClassification().train(config, data=data, model=model, **run)
    _, test = split_meshes(data, config)
    accuracy = {
        faces: share_right(trained, data, test, at_resolution(data, test, faces))
        for faces in FACTORS
    }
    damaged = {
        kind: [
            share_right(trained, data, test, damaged_shapes(data, test, kind, draw))
            for draw in range(arguments.draws)
        ]
        for kind in DAMAGES
    }
    return {
        "accuracy": accuracy,
        "accuracy when damaged": damaged,
        "test shapes": len(test),
        "seconds per epoch": median(line["seconds"] for line in trained.history),
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train": config.to_dict(),
    }


def main() -> None:
    """Run what is missing, and write after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--variant", choices=tuple(VARIANTS), default="default")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--holdout", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--draws", type=int, default=3, help="of each kind of damage")
    arguments = parsed(parser, work="runs/mesh_resolution", required=True)
    record = Record.series(arguments, "holdout", "epochs", "draws")
    data = load(arguments.data)
    for seed in range(arguments.runs):
        key = {"variant": arguments.variant, "seed": seed}
        record.keep(key, partial(one_run, arguments, data, seed))
    rows = [run["accuracy"] for run in record.runs if run["variant"] == arguments.variant]
    print(arguments.variant, {faces: mean(row[faces] for row in rows) for faces in FACTORS})


if __name__ == "__main__":
    main()
