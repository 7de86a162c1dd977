"""Accuracy of the mesh segmenter on generated animals, at their own and at half their faces.

    python -m bench.mesh_segmentation --runs 3 --output bench/results/mesh_segmentation.json

Run ``i`` has seed ``i`` and trains the default preset by its recipe on the 96 training animals of
``articulated_parts()``; the weights are those of the last epoch. The 24 test animals are evaluated
at 500 faces and, the same animals in the same poses, at 250. Nothing is selected on them;
``--holdout 24`` evaluates on training animals that were held out instead.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from statistics import mean, median
from typing import Any

import torch

from bench.recorder import Record, chosen, going_on, parsed
from equigeo.datasets import articulated_parts
from equigeo.tasks.mesh_segmentation import (
    SEGMENTATION_RECIPES,
    MeshSegmentation,
    SegmentationConfig,
    evaluate_mesh_segmenter,
    split_segmented_meshes,
)

FACES = (500, 250)


def one_run(arguments: argparse.Namespace, number: int) -> dict[str, Any]:
    """Train once, and evaluate at both resolutions."""
    recipe = replace(SEGMENTATION_RECIPES["default"], **chosen(arguments, "epochs"))
    config = SegmentationConfig("builtin", recipe=recipe, seed=number, holdout=arguments.holdout)
    size = {"per_class": arguments.per_class}
    dataset = articulated_parts(faces=FACES[0], **size)
    run = going_on(arguments, f"run-{number}")
    trained = MeshSegmentation().train(config, data=dataset, **run)
    found = {}
    for faces in FACES:
        data = articulated_parts(faces=faces, **size)
        _, test = split_segmented_meshes(data, config)
        evaluation = evaluate_mesh_segmenter(trained, data, test)
        found[str(faces)] = {
            "measures": evaluation.measures,
            "meshes": len(test),
            "meshes changed": {copy.kind: len(copy.changed) for copy in evaluation.copies},
        }
    return {
        "faces": found,
        "seconds per epoch": median(line["seconds"] for line in trained.history),
        "threads": torch.get_num_threads(),
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "train": config.to_dict(),
        "model": trained.model.config.to_dict(),
    }


def main() -> None:
    """Run what is missing, and write after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--holdout", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--per-class", type=int, default=20)
    arguments = parsed(parser, work="runs/mesh_segmentation", required=True)
    record = Record.series(arguments, "holdout", "epochs", "per_class")
    for number in range(arguments.runs):
        record.keep({"seed": number}, partial(one_run, arguments, number))
    means = {
        faces: {
            name: mean(run["faces"][faces]["measures"][name] for run in record.runs)
            for name in record.runs[0]["faces"][faces]["measures"]
        }
        for faces in map(str, FACES)
    }
    record.write({"mean": means})
    print(json.dumps(means, indent=1))


if __name__ == "__main__":
    main()
