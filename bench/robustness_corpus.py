"""Load every file of the robustness corpus and write what happened.

    python -m bench.robustness_corpus [--data ../shared/data/robustness_meshes] [--out FILE]

Exit status 1 if any expectation fails.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import platform
import sys
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy
import torch
import trimesh

from bench.interleaved import typed_command
from equigeo.mesh.errors import MeshError
from equigeo.mesh.load_mesh import load_mesh

ROOT = Path(__file__).resolve().parents[1]
SECONDS_PER_FILE = 2.0
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
    error: str | None = None

    @property
    def problems(self) -> list[str]:
        """Expectations that failed."""
        found = []
        if self.seconds > SECONDS_PER_FILE:
            found.append(f"took {self.seconds:.2f} s")
        if self.error is None and self.faces != self.expected_faces:
            found.append(f"{self.faces} faces, expected {self.expected_faces}")
        if self.error and self.category not in MAY_FAIL and self.file not in REASONS:
            found.append("failed to load")
        if self.error and self.file.rsplit("/", 1)[1] not in self.error:
            found.append("the error does not name the file")
        return [f"{self.file}: {problem}" for problem in found]


def load_corpus(data: Path) -> list[Outcome]:
    """Unpack the corpus into a temporary folder and load each of its files."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(data / "robustness_meshes.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        with (data / "MANIFEST.csv").open(newline="") as manifest:
            rows = list(csv.DictReader(manifest))
        return [_load(Path(folder, "robustness_meshes"), row) for row in rows]


def _load(folder: Path, row: dict[str, str]) -> Outcome:
    begin = time.perf_counter()
    try:
        mesh, report = load_mesh(folder / row["file"])
    except MeshError as error:
        seconds = time.perf_counter() - begin
        message = str(error).replace(f"{folder}/", "")
        return Outcome(row["file"], row["category"], seconds, error=message)
    seconds = time.perf_counter() - begin
    expected = int(row["triangles"]) - report.counts.removed_faces
    return Outcome(row["file"], row["category"], seconds, mesh.num_faces, expected)


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


def main() -> int:
    """Run the corpus from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT.parent / "shared" / "data" / "robustness_meshes"
    parser.add_argument("--data", type=Path, default=default)
    out = ROOT / "bench" / "results" / "robustness_corpus.json"
    parser.add_argument("--out", type=Path, default=out)
    arguments = parser.parse_args()
    outcomes = load_corpus(arguments.data)
    summary = summarize(outcomes)
    modules = (np, scipy, torch, trimesh)
    result = {
        "command": typed_command(),
        "date": datetime.date.today().isoformat(),
        "versions": {"python": platform.python_version()}
        | {module.__name__: module.__version__ for module in modules},
        **summary,
        "outcomes": [
            {**asdict(outcome), "seconds": round(outcome.seconds, 4)} for outcome in outcomes
        ],
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.write(json.dumps({k: v for k, v in summary.items() if k != "categories"}) + "\n")
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
