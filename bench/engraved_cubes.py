"""Accuracy of the mesh classifier on engraved cubes that are generated, every run listed.

    python -m bench.engraved_cubes --preset default --epochs 16 \
        --output bench/results/engraved_cubes_default.json

``engraved_cubes()`` stands in for the engraved cubes of MeshCNN: 22 classes, 17 icons of each to
train and 3 others to test, 10 placements of every icon, 500 faces. Run ``i`` has seed ``i``; the
weights are those of the last epoch.

Nothing is selected on test icons: ``--holdout 3`` evaluates on training icons that were held out,
with all of their placements, and leaves the test icons unseen. ``--placements`` takes fewer cubes
of every icon. ``--preset linear`` measures how much the classes differ in what no network is needed
for: a linear model on the means and maxima of the node features. Finished runs found in the output
file are kept, and an unfinished one resumes from its checkpoint in ``--work``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor

from bench.recorder import Record, going_on, output_arguments, work_folder
from equigeo.datasets import MeshDataset, engraved_cubes
from equigeo.mesh import ClassifierConfig, PrimalDualClassifier, PrimalDualGraph
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshClassification, MeshConfig
from equigeo.tasks.mesh_classification.run import split_meshes

SETTINGS = ("preset", "holdout", "placements", "epochs", "rate", "jitter", "decay")
RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0)  # penalties of the linear model, all of them reported


def one_run(arguments: argparse.Namespace, data: MeshDataset, seed: int) -> dict[str, Any]:
    """Train once, and evaluate on icons that were not trained on."""
    recipe = MESH_RECIPES[arguments.preset]
    changes = {
        "epochs": arguments.epochs, "learning_rate": arguments.rate,
        "jitter": arguments.jitter, "weight_decay": arguments.decay,
    }  # fmt: skip
    recipe = replace(recipe, **{name: v for name, v in changes.items() if v is not None})
    config = MeshConfig(
        "cubes", recipe=recipe, preset=arguments.preset, seed=seed, holdout=arguments.holdout
    )
    config = replace(config, evaluate_every=arguments.every)
    work = work_folder(arguments.work) / arguments.output.stem / f"run-{seed}"
    trained = MeshClassification().train(config, work, data=data, **going_on(arguments))
    train, test = split_meshes(data, config)
    seen = trained.logits([data.meshes[i] for i in test]).argmax(dim=1)
    true = data.labels[test]
    wrong = (seen != true).nonzero().flatten().tolist()
    return {
        "accuracy": (seen == true).double().mean().item(),
        "meshes": {"training": len(train), "evaluated": len(test)},
        "confusions": Counter(
            f"{data.classes[true[k]]} as {data.classes[seen[k]]}" for k in wrong
        ).most_common(),
        "errors": [f"{data.names[test[k]]} as {data.classes[seen[k]]}" for k in wrong],
        "training seconds": sum(line["seconds"] for line in trained.history),
        "seconds per epoch": median(line["seconds"] for line in trained.history),
        "history": trained.history,
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "settings": {"train": config.to_dict(), "model": trained.model.config.to_dict()},
    }


def linear_run(arguments: argparse.Namespace, data: MeshDataset) -> dict[str, Any]:
    """Fit a linear model to pooled node features, as a measure of the data."""
    train, test = split_meshes(data, MeshConfig("cubes", holdout=arguments.holdout))
    accuracy = {}
    for name in ("default", "paper"):
        model = PrimalDualClassifier(
            ClassifierConfig.paper(data.num_classes)
            if name == "paper"
            else ClassifierConfig(data.num_classes)
        )
        pooled = pooled_features([model.graph(mesh) for mesh in data.meshes])
        accuracy[f"features of {name}"] = {
            str(ridge): linear_accuracy(pooled, data.labels, train, test, ridge) for ridge in RIDGES
        }
    return {
        "accuracy by ridge": accuracy,
        "meshes": {"training": len(train), "evaluated": len(test)},
    }


def pooled_features(graphs: Sequence[PrimalDualGraph]) -> Tensor:
    """Means and maxima over the nodes of each graph, (graphs, features), float64."""
    rows = []
    for graph in graphs:
        nodes = [graph.x_primal.double(), graph.x_dual.double()]
        rows.append(torch.cat([pool for x in nodes for pool in (x.mean(0), x.amax(0))]))
    return torch.stack(rows)


def linear_accuracy(
    features: Tensor, labels: Tensor, train: Tensor, test: Tensor, ridge: float
) -> float:
    """Accuracy of ridge regression to indicators of the classes, on standardized features."""
    scale = features[train].std(dim=0)
    x = (features - features[train].mean(dim=0)) / torch.where(scale > 0, scale, 1.0)
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    y = torch.nn.functional.one_hot(labels[train]).to(x.dtype)
    gram = x[train].T @ x[train] + ridge * torch.eye(x.shape[1], dtype=x.dtype)
    predicted = (x[test] @ torch.linalg.solve(gram, x[train].T @ y)).argmax(dim=1)
    return (predicted == labels[test]).double().mean().item()


def main() -> None:
    """Run what is missing, and write after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=("default", "paper", "linear"), default="default")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--holdout", type=int, default=0)
    parser.add_argument("--placements", type=int, default=10)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--jitter", type=float)
    parser.add_argument("--decay", type=float)
    parser.add_argument("--every", type=int, default=0, help="evaluate after so many epochs")
    parser.add_argument("--work", type=Path, default=Path("runs/engraved_cubes"))
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
    if arguments.every and not arguments.holdout:
        parser.error("--every looks at what is evaluated more than once: only with --holdout")
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    record = Record(arguments.output, settings=settings, resume=arguments.resume)
    data = engraved_cubes(placements=arguments.placements)
    if arguments.preset == "linear":
        record.keep({"preset": "linear"}, partial(linear_run, arguments, data))
        return
    for seed in range(arguments.runs):
        key = {"preset": arguments.preset, "seed": seed}
        record.keep(key, partial(one_run, arguments, data, seed))
    print(arguments.preset, mean(run["accuracy"] for run in record.runs))


if __name__ == "__main__":
    main()
