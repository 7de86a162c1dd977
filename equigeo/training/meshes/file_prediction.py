"""The class of a mesh file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equigeo.mesh.load_mesh import load_mesh
from equigeo.training.meshes.trained_classifier import TrainedClassifier


@dataclass(frozen=True)
class FilePrediction:
    """The likeliest classes of a mesh file.

    Parameters
    ----------
    path : Path
        The file.
    ranking : list of (str, float)
        Class names with probabilities, likeliest first.
    notes : str
        What the loader repaired or warned of; empty if nothing.
    """

    path: Path
    ranking: list[tuple[str, float]]
    notes: str


def classify_file(classifier: TrainedClassifier, path: Path, top: int = 1) -> FilePrediction:
    """Load a mesh file, repair it where needed, and classify it.

    Parameters
    ----------
    classifier : TrainedClassifier
        What to ask.
    path : Path
        An OBJ, OFF, PLY or STL file.
    top : int
        How many classes to give.

    Raises
    ------
    MeshError
        If the file cannot be used; the message names it.
    ValueError
        If ``top`` is not positive.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    mesh, report = load_mesh(path)
    probabilities = classifier.logits([mesh])[0].double().softmax(dim=0)
    best = probabilities.topk(min(top, len(probabilities)))
    ranking = [
        (classifier.classes[i], p)
        for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    notes = "" if report.is_clean and not report.warnings else report.summary()
    return FilePrediction(path, ranking, notes)
