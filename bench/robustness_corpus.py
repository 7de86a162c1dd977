"""Load every file of the robustness corpus, take its mesh through a network, write what happened.

Every triangle of a file is kept, but for degenerate and duplicate ones. The network is the default
classifier, untrained, forward and backward, with its pooling; its logits, its gradients and the
logits of the mesh turned by a rotation have to be finite, and the latter the same.

    python -m bench.robustness_corpus [--data ../shared/data/robustness_meshes] [--output FILE]

Exit status 1 if any expectation fails.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import trimesh

from bench.recorder import REPOSITORY, Record, parsed
from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph, TriangleMesh
from equigeo.mesh.errors import MeshError
from equigeo.mesh.load_mesh import load_mesh
from equigeo.tasks.common.measures import random_orthogonal

SECONDS_PER_FILE = 2.0
SAME = 1e-4  # of the largest logit, in float32
MAY_FAIL = ("malformed", "no_faces")
REASONS = {  # files of other categories that hold no surface
    "format/assimp__issue623.ply": "points without a face",
    "format/trimesh__points_ascii_with_lists.ply": "points without a face",
    "format/assimp__number_formats.obj": "the corners of its only face lie on a line",
}


@dataclass(frozen=True)
class Outcome:
    """What came of one file."""

    file: str
    category: str
    seconds: float
    faces: int | None = None
    expected_faces: int | None = None
    nonmanifold_edges: int | None = None
    change_by_rotation: float | None = None
    error: str | None = None

    @property
    def problems(self) -> list[str]:
        """Expectations that failed."""
        found = []
        if self.seconds > SECONDS_PER_FILE:
            found.append(f"took {self.seconds:.2f} s")
        if self.error is None and self.faces != self.expected_faces:
            found.append(f"{self.faces} faces, expected {self.expected_faces}")
        if self.change_by_rotation is not None and not self.change_by_rotation <= SAME:
            found.append(f"logits change by {self.change_by_rotation} under a rotation")
        if self.error and self.category not in MAY_FAIL and self.file not in REASONS:
            found.append("failed to load")
        if self.error and self.file.rsplit("/", 1)[1] not in self.error:
            found.append("the error does not name the file")
        return [f"{self.file}: {problem}" for problem in found]


@contextmanager
def corpus(data: Path) -> Iterator[tuple[Path, list[dict[str, str]]]]:
    """The folder of the files, from the archive or beside it, and the rows of the manifest."""
    with (data / "MANIFEST.csv").open(newline="") as manifest:
        rows = list(csv.DictReader(manifest))
    with tempfile.TemporaryDirectory() as temporary:
        folder = data
        if not (data / "robustness_meshes").is_dir():
            folder = Path(temporary)
            with tarfile.open(data / "robustness_meshes.tar.xz") as archive:
                archive.extractall(folder, filter="data")
        yield folder / "robustness_meshes", rows


def load_corpus(data: Path, network: bool = False) -> list[Outcome]:
    """Load each file; take it through a network."""
    with corpus(data) as (folder, rows):
        return [_load(folder, row, network) for row in rows]


def _load(folder: Path, row: dict[str, str], network: bool) -> Outcome:
    begin = time.perf_counter()
    try:
        mesh, report = load_mesh(folder / row["file"])
    except MeshError as error:
        seconds = time.perf_counter() - begin
        message = str(error).replace(f"{folder}/", "")
        return Outcome(row["file"], row["category"], seconds, error=message)
    seconds = time.perf_counter() - begin
    counts = report.counts
    dropped = counts.repeated_index_faces + counts.zero_area_faces + counts.duplicate_faces
    return Outcome(
        row["file"],
        row["category"],
        seconds,
        mesh.num_faces,
        int(row["triangles"]) - dropped - counts.nonfinite_faces,
        counts.nonmanifold_edges,
        _change_by_rotation(mesh) if network else None,
    )


def _change_by_rotation(mesh: TriangleMesh) -> float:
    """Greatest change of a logit over the greatest logit; NaN where something is not finite."""
    torch.manual_seed(0)
    model = PrimalDualClassifier.preset("default", num_classes=4)
    turned = mesh.act(random_orthogonal(torch.Generator().manual_seed(0), 1.0))
    logits = model.train()(PrimalDualGraph.batch([model.graph(mesh), model.graph(turned)]))
    logits.square().sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    if not all(bool(torch.isfinite(x).all()) for x in (logits, *gradients)):
        return float("nan")
    model.eval()
    with torch.no_grad():
        logits, moved = model(model.graph(mesh)), model(model.graph(turned))
    return float((moved - logits).abs().max() / logits.abs().max())


def summarize(outcomes: list[Outcome]) -> dict[str, object]:
    """Counts per category, errors with their reasons, failed expectations."""
    categories = {}
    for category in sorted({outcome.category for outcome in outcomes}):
        members = [outcome for outcome in outcomes if outcome.category == category]
        slowest = max(members, key=lambda outcome: outcome.seconds)
        categories[category] = {
            "files": len(members),
            "loaded": sum(outcome.error is None for outcome in members),
            "triangles_as_expected": sum(
                outcome.error is None and outcome.faces == outcome.expected_faces
                for outcome in members
            ),
            "errors": {outcome.file: outcome.error for outcome in members if outcome.error},
            "slowest": {"file": slowest.file, "seconds": round(slowest.seconds, 3)},
        }
    return {
        "files": len(outcomes),
        "loaded": sum(outcome.error is None for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 2),
        "problems": [problem for outcome in outcomes for problem in outcome.problems],
        "reasons": REASONS,
        "categories": categories,
    }


def arguments_of(document: str, name: str) -> argparse.Namespace:
    """Parse where the corpus lies, and where results go, by default to the record of a name."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    default = REPOSITORY.parent / "shared" / "data" / "robustness_meshes"
    parser.add_argument("--data", type=Path, default=default)
    return parsed(parser, default=REPOSITORY / "bench" / "results" / f"{name}.json")


def main() -> int:
    """Run the corpus from the command line."""
    arguments = arguments_of(__doc__, "robustness_corpus")
    record = Record(arguments.output)
    outcomes = load_corpus(arguments.data, network=True)
    summary = summarize(outcomes)
    rows = [asdict(outcome) | {"seconds": round(outcome.seconds, 4)} for outcome in outcomes]
    record.write(summary | {"outcomes": rows}, trimesh=trimesh.__version__)
    sys.stdout.write(json.dumps({k: v for k, v in summary.items() if k != "categories"}) + "\n")
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
