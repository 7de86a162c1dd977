"""Epochs of the mesh classifier, one for each line that is read: a process of ``mesh_epoch``.

Run as a file and not as a module, with the checkout to be measured first on ``PYTHONPATH``: it
imports nothing else of this folder, and knows the names that training had in version 0.1.0 and has
now. An epoch is what every version trains by: its batches with their noise, its model, the
cross-entropy of the recipe, its optimiser and schedule.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

# An editable installation is found before PYTHONPATH, and would be the same for all checkouts.
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable_")]

import equigeo  # noqa: E402
from equigeo.datasets import MeshDataset, load_mesh_folder, split_indices  # noqa: E402
from equigeo.mesh import PrimalDualClassifier  # noqa: E402

try:
    from equigeo.tasks.mesh_classification import MESH_RECIPES as RECIPES
    from equigeo.tasks.mesh_classification.data import LabelledGraphs
    from equigeo.training.loop.epoch_batches import EpochBatches
    from equigeo.training.recipe import build_optimizer
except ImportError:  # version 0.1.0
    from equigeo.training.build_optimizer import build_optimizer  # type: ignore[no-redef, import-untyped]
    from equigeo.training.epoch_batches import EpochBatches  # type: ignore[no-redef, import-untyped]
    from equigeo.training.labelled_graphs import LabelledGraphs  # type: ignore[no-redef, import-untyped]
    from equigeo.training.recipes import RECIPES  # type: ignore[no-redef, import-untyped]


def main() -> None:
    """Prepare, then time an epoch for each line on standard input."""
    data, changes, threads = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    dataset = load_mesh_folder(data)
    model = build_model(dataset, changes)
    chosen, _ = split_indices(dataset, "16", 0)
    graphs = [model.graph(dataset.meshes[i]) for i in chosen.tolist()]
    model.fit_standardization(graphs)
    epoch = epochs(model, graphs, dataset.labels[chosen])
    answer({"package": str(Path(equigeo.__file__).parent), "settings": settings(model)})
    for number, _ in enumerate(sys.stdin):
        start, used = time.perf_counter(), time.process_time()
        loss, steps = epoch(number)
        seconds, cpu = time.perf_counter() - start, time.process_time() - used
        answer({"seconds": seconds, "processor seconds": cpu, "steps": steps, "loss": loss})


def build_model(dataset: MeshDataset, changes: dict[str, Any]) -> PrimalDualClassifier:
    """The default preset of the version, with changes."""
    values = {"num_classes": dataset.num_classes, **changes}
    defaults = settings(PrimalDualClassifier.preset("default", dataset.num_classes))
    return PrimalDualClassifier.from_config({**defaults, **values})


def settings(model: PrimalDualClassifier) -> dict[str, Any]:
    """The configuration, of JSON types in either version."""
    config: Any = model.config
    return dict(config if isinstance(config, dict) else config.to_dict())


def epochs(
    model: PrimalDualClassifier, graphs: list[Any], labels: torch.Tensor
) -> Callable[[int], tuple[float, int]]:
    """A function that trains for an epoch and gives the mean loss and the number of steps."""
    recipe = RECIPES["default"]
    steps = EpochBatches.count(len(graphs), recipe.batch_size)
    optimizer, schedule = build_optimizer(model.parameters(), recipe, steps)

    def epoch(number: int) -> tuple[float, int]:
        total = 0.0
        for inputs, expected in batches(graphs, labels, number):
            logits = model(inputs)
            loss = F.cross_entropy(logits, expected, label_smoothing=recipe.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
            total += loss.item()
        return total / steps, steps

    return epoch


def batches(graphs: list[Any], labels: torch.Tensor, number: int) -> Iterator[tuple[Any, Any]]:
    """The batches of an epoch, with the noise of the recipe."""
    recipe = RECIPES["default"]
    try:
        source = LabelledGraphs(graphs, labels, jitter=recipe.jitter)
        found = EpochBatches(source, recipe.batch_size, seed=0, epoch=number)
    except TypeError:  # version 0.1.0
        old: Any = EpochBatches
        found = old(
            LabelledGraphs(graphs, labels), recipe.batch_size, seed=0, epoch=number,
            jitter=recipe.jitter,
        )  # fmt: skip
    for step in range(len(found)):
        batch: Any = found[step]
        yield (batch.inputs if hasattr(batch, "inputs") else batch.graph), batch.labels


def answer(facts: dict[str, Any]) -> None:
    """One line of JSON."""
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
