"""What ``make example`` trains: how long it takes, and how many of its test shapes it tells.

    python -m bench.example --output bench/results/example.json

Seeds 0 to 4 of the default preset on the built-in shapes, with the epochs of the Makefile and,
with ``--epochs``, others.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.recorder import Record, output_arguments
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig
from equigeo.tasks.mesh_classification.run import split_meshes
from equigeo.tasks.mesh_classification.task import evaluate_mesh_classifier

EPOCHS = 12  # of the Makefile


def one_run(epochs: int, seed: int) -> dict[str, Any]:
    """Train and evaluate once."""
    base = MeshConfig.of_preset("builtin")
    config = replace(base, seed=seed, recipe=replace(base.recipe, epochs=epochs))
    task = MeshClassification()
    data = task.load(config)
    with tempfile.TemporaryDirectory() as folder:
        trained = task.train(config, Path(folder) / "run", data=data)
    _, test = split_meshes(data, config)
    evaluation = evaluate_mesh_classifier(trained, data, test)
    return {
        "accuracy": evaluation.accuracy,
        "test meshes": len(test),
        "predictions changed": {copy.kind: len(copy.changed) for copy in evaluation.copies},
        "training seconds": sum(epoch["seconds"] for epoch in trained.history),
    }


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = {"threads": arguments.threads}
    record = Record(arguments.output, settings=settings, resume=arguments.resume)
    for seed in arguments.seeds:
        key = {"epochs": arguments.epochs, "seed": seed}
        run = record.keep(key, partial(one_run, arguments.epochs, seed))
        print(seed, run["accuracy"], round(run["training seconds"], 1), flush=True)


if __name__ == "__main__":
    main()
