"""Whether shapes that resemble nothing of the training are noticed, and how many others are too.

    python -m bench.foreign_shapes --shared ../shared/data \
        --output bench/results/foreign_shapes.json

``choice`` compares scores on training shapes that were put aside, of the built-in shapes, SHREC'11
and the Princeton benchmark: the share of them that each score flags (false alarms) and the share of
foreign shapes, at the limit that 99 % of the training shapes keep when left out of the fit, and the
area under the ROC curve, which needs no limit. Of the Princeton shapes, those with even numbers are
foreign here. ``final`` is the score of ``equigeo.training.novelty`` on the built-in shapes alone,
after the usual training: false alarms on the test part, also at other numbers of faces, and what it
flags of simple solids, of the robustness corpus and of the Princeton shapes with odd numbers, by
class, as some of their classes are built in. Nothing is selected on ``final``. Default preset and
recipe, seed 0, one thread; with ``--resume`` runs in ``--work`` and parts of the output file are
kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import trimesh
from torch import Tensor

from bench.mesh_resolution import load as load_princeton
from bench.recorder import Record, going_on, output_arguments, work_folder
from equigeo.datasets import MeshDataset
from equigeo.mesh import MeshError, TriangleMesh, load_mesh, subdivide
from equigeo.mesh.remesh.with_resolution import with_resolution
from equigeo.tasks.measures.classification import embed
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshClassification,
    MeshConfig,
    TrainedMeshClassifier,
    load_meshes,
    split_meshes,
)
from equigeo.training.novelty import Novelty

SHARE, FOLDS, LARGEST = 0.99, 10, 20_000
FINAL = "built-in shapes, final"
RESOLUTIONS = (0.5, 2.0)
Score = Callable[[Tensor], Tensor]
Meshes = dict[str, TriangleMesh]


def solids() -> Meshes:
    """Shapes that no class of any of the sets has."""
    create = trimesh.creation
    made = {
        "sphere, 320 faces": create.icosphere(2),
        "sphere, 1280 faces": create.icosphere(3),
        "sphere by latitude": create.uv_sphere(count=[16, 16]),
        "cube, 12 faces": create.box(),
        "cube, 768 faces": create.box().subdivide().subdivide().subdivide(),
        "thin torus": create.torus(1, 0.3, 32, 16),
        "thick torus": create.torus(1, 0.7, 24, 12),
        "cylinder": create.cylinder(0.5, 2, sections=32).subdivide(),
        "cone": create.cone(0.5, 1, sections=32).subdivide(),
        "capsule": create.capsule(2, 0.5, count=[16, 16]),
        "tube": create.annulus(0.5, 1, 1, sections=32).subdivide(),
    }
    found = {name: TriangleMesh.from_trimesh(mesh) for name, mesh in made.items()}
    square = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    patch = TriangleMesh(square, torch.tensor([[0, 1, 2], [0, 2, 3]]))
    for _ in range(4):
        patch = subdivide(patch)
    return found | {"plane patch": patch}


def corpus(folder: Path) -> Meshes:
    """All files of the robustness corpus with a surface of at most 20,000 faces."""
    found = {}
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(folder / "robustness_meshes.tar.xz") as archive:
            archive.extractall(unpacked, filter="data")
        with (folder / "MANIFEST.csv").open(newline="") as manifest:
            files = [row["file"] for row in csv.DictReader(manifest)]
        for name in files:
            try:
                mesh, _ = load_mesh(Path(unpacked, "robustness_meshes", name))
            except MeshError:
                continue
            if mesh.num_faces <= LARGEST:
                found[name] = mesh
    return found


def princeton(folder: Path, odd: bool) -> Meshes:
    """Half of the Princeton shapes, at 500 faces as other sets have; names begin with classes."""
    data = load_princeton(folder / "psb19_f1000.npz")
    names = class_names(folder)
    return {
        f"{names[int(label)]}/{i}": with_resolution(mesh, 0.5)
        for i, (mesh, label) in enumerate(zip(data.meshes, data.labels, strict=True))
        if i % 2 == odd
    }


def class_names(folder: Path) -> list[str]:
    """Names of the classes of the Princeton shapes."""
    with np.load(folder / "psb19_f1000.npz", allow_pickle=False) as data:
        return [str(name) for name in data["classes"]]


def mahalanobis(model: Any, x: Tensor, labels: Tensor) -> Score:
    """Distance to the nearest class, of one covariance: what was chosen."""
    return _placed(x, labels).distances


def relative_mahalanobis(model: Any, x: Tensor, labels: Tensor) -> Score:
    """The square of it less that of the distance to all samples as one class."""
    near, whole = _placed(x, labels), _placed(x, torch.zeros_like(labels))
    return lambda z: near.distances(z).square() - whole.distances(z).square()


def nearest_neighbour(model: Any, x: Tensor, labels: Tensor) -> Score:
    """Euclidean distance to the nearest training shape, channels standardised."""
    deviation, mean = torch.std_mean(x, dim=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    known = (x - mean) / deviation
    return lambda z: torch.cdist((z - mean) / deviation, known).amin(dim=1)


def improbability(model: Any, x: Tensor, labels: Tensor) -> Score:
    """One less the probability of the likeliest class."""

    @torch.no_grad()
    def score(z: Tensor) -> Tensor:
        probabilities = model.head(z.float()).softmax(dim=1)
        return 1 - probabilities.amax(dim=1).double()

    return score


SCORES = {
    "Mahalanobis": mahalanobis,
    "relative Mahalanobis": relative_mahalanobis,
    "nearest neighbour": nearest_neighbour,
    "1 - largest probability": improbability,
}


def _placed(x: Tensor, labels: Tensor) -> Novelty:
    fitted = Novelty.fit(x, labels)
    if fitted is None:
        raise ValueError("the training shapes are all alike")
    return fitted


def vectors(model: Any, meshes: list[TriangleMesh]) -> Tensor:
    """Embed one by one: batches of the largest would need much memory."""
    return embed(model, (model.graph(mesh) for mesh in meshes)).double()


def compare(
    trained: TrainedMeshClassifier, data: MeshDataset, foreign: dict[str, Meshes]
) -> dict[str, Any]:
    """False alarms and detections of every score, on training shapes that were put aside."""
    model = trained.model
    known, held = split_meshes(data, trained.config)
    x, labels = vectors(model, [data.meshes[i] for i in known]), data.labels[known]
    aside = vectors(model, [data.meshes[i] for i in held])
    strange = {name: vectors(model, list(some.values())) for name, some in foreign.items()}
    found: dict[str, Any] = {"training shapes": len(known), "put aside": len(held), "scores": {}}
    folds = torch.arange(len(known)) % FOLDS
    for name, make in SCORES.items():
        left_out = torch.cat(
            [make(model, x[folds != k], labels[folds != k])(x[folds == k]) for k in range(FOLDS)]
        )
        limit = left_out.quantile(SHARE, interpolation="higher")
        score = make(model, x, labels)
        usual = score(aside)
        found["scores"][name] = {
            "false alarms": share(usual > limit),
            "detected": {kind: share(score(z) > limit) for kind, z in strange.items()},
            "area under the ROC curve": {
                kind: area(usual, score(z)) for kind, z in strange.items()
            },
        }
    return found


def share(flags: Tensor) -> float:
    """Share of true flags."""
    return round(flags.double().mean().item(), 4)


def area(usual: Tensor, strange: Tensor) -> float:
    """Probability that a foreign shape scores above one like those of the training."""
    above = (strange[:, None] > usual).double() + 0.5 * (strange[:, None] == usual).double()
    return round(above.mean().item(), 4)


def final(trained: TrainedMeshClassifier, data: MeshDataset, shared: Path) -> dict[str, Any]:
    """The chosen score as a user meets it."""
    _, test = split_meshes(data, trained.config)
    own = [data.meshes[i] for i in test]
    names = [data.names[i] for i in test]
    found: dict[str, Any] = {"test": _flagged(trained, dict(zip(names, own, strict=True)))}
    for factor in RESOLUTIONS:
        meshes = [with_resolution(mesh, factor) for mesh in own]
        right = trained.logits(meshes).argmax(dim=1) == data.labels[test]
        flagged = _flagged(trained, dict(zip(names, meshes, strict=True)))
        found[f"test at {factor:g} times the faces"] = flagged | {"accuracy": share(right)}
    found["simple solids"] = _flagged(trained, solids(), each=True)
    found["robustness corpus"] = _flagged(trained, corpus(shared / "robustness_meshes"))
    others = princeton(shared / "psb19", odd=True)
    found["Princeton shapes"] = _flagged(trained, others)
    kinds: dict[str, Meshes] = {}
    for name, mesh in others.items():
        kinds.setdefault(name.partition("/")[0], {})[name] = mesh
    found["Princeton shapes"]["share by class"] = {
        kind: _flagged(trained, some)["share"] for kind, some in sorted(kinds.items())
    }
    return found


def _flagged(
    trained: TrainedMeshClassifier, meshes: Meshes, *, each: bool = False
) -> dict[str, Any]:
    """How many shapes are said to resemble nothing; the smallest and largest novelty."""
    novelties, logits = [], []
    for mesh in meshes.values():
        novelties += trained.novelties([mesh]) or []
        logits.append(trained.logits([mesh])[0].softmax(dim=0))
    values = torch.tensor(novelties)
    found: dict[str, Any] = {
        "shapes": len(meshes),
        "flagged": int((values > 1).sum()),
        "share": share(values > 1),
        "novelty from": round(float(values.min()), 3),
        "novelty to": round(float(values.max()), 3),
    }
    if each:
        found["each"] = {
            name: {
                "novelty": round(value, 2),
                "answer": trained.classes[int(seen.argmax())],
                "probability": round(float(seen.max()), 3),
            }
            for name, value, seen in zip(meshes, novelties, logits, strict=True)
        }
    return found


def main() -> None:
    """Train what is missing, measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--epochs", type=int, default=MESH_RECIPES["default"].epochs)
    parser.add_argument("--work", type=Path, default=Path("runs/foreign_shapes"))
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = {"epochs": arguments.epochs}
    record = Record(arguments.output, settings=settings, resume=arguments.resume)
    results: dict[str, Any] = {"choice": record.content.get("choice", {})}
    shared: Path = arguments.shared
    foreign = {"simple solids": solids(), "Princeton": princeton(shared / "psb19", odd=False)}
    for name, (data, config) in runs(shared, arguments.epochs).items():
        if name in results["choice"] or (name == FINAL and "final" in record.content):
            continue
        folder = work_folder(arguments.work) / name.replace(" ", "-").replace("'", "")
        trained = MeshClassification().train(config, folder, data=data, **going_on(arguments))
        if name == FINAL:
            results["final"] = final(trained, data, shared)
        else:
            strange = foreign
            if name == "Princeton":
                strange = {"simple solids": foreign["simple solids"]}
            results["choice"][name] = compare(trained, data, strange)
        record.write(results)
    print(json.dumps(record.content["final"], indent=1))


def runs(shared: Path, epochs: int) -> dict[str, tuple[MeshDataset, MeshConfig]]:
    """Every training: data and configuration."""
    recipe = replace(MESH_RECIPES["default"], epochs=epochs)
    builtin = load_meshes("builtin")
    archive = shared / "shrec11_meshcnn" / "shrec_16.tar.gz"
    return {
        FINAL: (builtin, MeshConfig("builtin", recipe=recipe)),
        "built-in shapes": (builtin, MeshConfig("builtin", recipe=recipe, holdout=4)),
        "SHREC'11": (
            load_meshes(str(archive)),
            MeshConfig(str(archive), recipe=recipe, split="16", holdout=4),
        ),
        "Princeton": (
            load_princeton(shared / "psb19" / "psb19_f1000.npz"),
            MeshConfig("memory", recipe=recipe, split="10", holdout=3),
        ),
    }  # fmt: skip


if __name__ == "__main__":
    main()
