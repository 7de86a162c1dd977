"""Accuracy on ModelNet10 as points, upright and transformed, every run listed.

    python -m bench.modelnet10 --data ../shared/data/modelnet10_points --network mds

Networks are trained on upright clouds that are never rotated, and tested on the same test clouds
upright, rotated, scaled and sheared, each copy drawn once and for all. Nothing is selected on test
clouds: they are seen once, after the last epoch. ``--holdout 50`` evaluates on training clouds that
were held out instead, which is what settings may be chosen on: every network by the same
``--variant``s. ``plain`` is the network of ``mds`` without its embedding, ``frame-averaging`` has
four frames, of which training draws one, and steps of ``vector-neurons`` take as long. There is one
result file for each network.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from bench.recorder import Record, chosen, going_on, parsed
from bench.rows.plain import VectorNeurons
from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    POINT_PRESETS,
    PointCloudClassification,
    PointConfig,
    TrainedPointClassifier,
    evaluate_point_classifier,
)
from equigeo.training import time_limit

NETWORKS: dict[str, tuple[str, str]] = {  # family and preset
    **dict.fromkeys(("mds", "frame-averaging"), ("mds", "default")),
    **dict.fromkeys(("plain", "vector-neurons"), ("plain", "default")),
    **{f"{m}-{p}": (m, p) for m, presets in POINT_PRESETS.items() for p in presets},
}
CLASSES = 10
RESAMPLED = {"resample": 0.5, "stretch": 0.1}
VARIANTS: dict[str, dict[str, Any]] = {  # what differs from the preset in recipe and network
    "as preset": {},
    "half the rate": {"recipe": {"learning_rate": 1e-3}},
    "twice the rate": {"recipe": {"learning_rate": 4e-3}},
    "classes by their share": {"recipe": {"logit_adjustment": 0.0}},
    "no label smoothing": {"recipe": {"label_smoothing": 0.0}},
    "half of the groups": {"network": {"settings": {"groups": (64, 16), "neighbors": 16}}},
    "resampled": {"recipe": RESAMPLED},
    "resampled and averaged": {"recipe": {**RESAMPLED, "ema_decay": 0.998, "update_bn": True}},
}


class Neurons(VectorNeurons):
    groups = (64, 16)

    def __init__(self, classes: int) -> None:
        super().__init__((64, 128, 256), (256, 128), classes)
        self.config = SimpleNamespace(num_classes=classes, to_dict=lambda: {"neurons": classes})


class Trained(TrainedPointClassifier):
    """Result of a run with any network."""

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return Neurons(model["neurons"]) if "neurons" in model else super().build(model, config)


class Classification(PointCloudClassification):
    trained_type = Trained


def main() -> None:
    """Train and evaluate once, and add the run to the file of the network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--network", choices=tuple(NETWORKS), default="mds")
    parser.add_argument("--variant", choices=tuple(VARIANTS), default="as preset")
    parser.add_argument("--epochs", type=int, help="by default those of the preset")
    parser.add_argument("--points", type=int, help="by default those of the preset")
    parser.add_argument("--time-limit", type=float, metavar="MINUTES", help="of this session")
    for name in ("--seed", "--holdout", "--evaluate-every"):
        parser.add_argument(name, type=int, default=0)
    arguments = parsed(parser, work="runs/modelnet10", threads=0, help="default: bench/results")
    path = arguments.output or Path("bench/results") / f"modelnet10_{arguments.network}.json"
    record = Record(path, resume=arguments.resume)
    config = run_config(arguments)
    key = {"variant": arguments.variant, "train": shown(config)}
    if record.find(key):
        print(f"{path} has this run")
        return
    trained = train(arguments, config)
    done = len(trained.history)
    if done < config.recipe.epochs:
        print(f"{done} of {config.recipe.epochs} epochs; repeat the command with --resume")
        return
    run = record.keep(key, lambda: measure(trained))
    print(json.dumps({k: v for k, v in run.items() if k != "history"}, indent=1))


def run_config(arguments: argparse.Namespace) -> PointConfig:
    """Return the configuration of the preset with the changes of the command line."""
    model, preset = NETWORKS[arguments.network]
    config = PointConfig.of_preset(str(arguments.data.resolve()), preset, model)
    changes = VARIANTS[arguments.variant].get("recipe", {}) | chosen(arguments, "epochs")
    given = chosen(arguments, "seed", "holdout", "evaluate_every", "points")
    return replace(config, recipe=replace(config.recipe, **changes), **given)


def shown(config: PointConfig) -> dict[str, Any]:
    """Settings as they are published: the name of the folder of data, not where it lies."""
    return config.to_dict() | {"data": Path(config.data).name}


def train(arguments: argparse.Namespace, config: PointConfig) -> TrainedPointClassifier:
    """Train, or go on training, for as long as this session may last."""
    limit = arguments.time_limit
    name = [arguments.network, arguments.variant.replace(" ", "-"), str(config.seed)]
    return Classification().train(
        config,
        model=other_network(arguments, config),
        **going_on(arguments, "-".join(name)),
        progress=True,
        callbacks=() if limit is None else time_limit(limit),
    )


def other_network(arguments: argparse.Namespace, config: PointConfig) -> nn.Module | None:
    """Build the network of a variant or a baseline; None is the preset's own."""
    changes = dict(VARIANTS[arguments.variant].get("network", {}))
    torch.manual_seed(config.seed)
    if arguments.network == "vector-neurons":
        if changes:
            raise SystemExit(f"vector-neurons has no variant {arguments.variant!r}")
        return Neurons(CLASSES)
    if arguments.network == "frame-averaging":  # Puny et al. 2022
        changes |= {"group": "SO", "upright": False}
    found = POINT_MODELS[config.model].preset
    return found(config.preset, CLASSES, **changes) if changes else None


def measure(trained: TrainedPointClassifier) -> dict[str, Any]:
    """Evaluate on upright and on transformed clouds."""
    evaluation = evaluate_point_classifier(trained)
    number = len(evaluation.labels)
    flagged = evaluation.flagged
    return {
        "seed": trained.config.seed,
        "clouds": number,
        "part": "held out" if trained.config.holdout else "test",
        "accuracy": {"upright": evaluation.accuracy}
        | {copy.kind: copy.accuracy for copy in evaluation.copies},
        "equal predictions": {
            copy.kind: 1 - len(copy.changed) / number for copy in evaluation.copies
        },
        "change of the logits": evaluation.logit_changes,
        "flagged": None if flagged is None else len(flagged) / number,
        "accuracy without flagged": evaluation.unflagged_accuracy,
        "confusion": evaluation.confusion,
        "training seconds": sum(epoch["seconds"] for epoch in trained.history),
        "epochs": len(trained.history),
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "model": trained.model.config.to_dict(),
        "history": trained.history,
    }


if __name__ == "__main__":
    main()
