"""Predictions for a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from equigeo._brief import brief_fields
from equigeo.datasets.replace_file import replace_file

TABLES: Final = (".csv", ".jsonl")
"""Endings of the files that :func:`write_predictions` writes."""


@dataclass(frozen=True)
class FilePrediction:
    """Predictions for a file: ranked classes, labelled parts or other results.

    Parameters
    ----------
    ranking : list of (str, float)
        Class names with probabilities, or parts with their share of the area, largest first.
    notes : str, repairs and warnings of the loader
    files : mapping of str to bytes
        Contents of files by the end of their name after the stem, such as ``".parts.ply"``.
    remark : str, warning about the ranking
    summary : str, shown instead of a ranking

    Examples
    --------
    >>> FilePrediction(Path("a.obj"), [("cat", 0.9), ("dog", 0.1)], "").ranking[0]
    ('cat', 0.9)
    """

    path: Path
    ranking: list[tuple[str, float]]
    notes: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""
    summary: str = ""

    __repr__ = brief_fields

    def write(self, folder: Path, form: str = "") -> list[Path]:
        """Write the files whose names end with ``form`` into a folder; return their paths."""
        files = {suffix: c for suffix, c in self.files.items() if suffix.endswith(form)}
        paths = [folder / f"{self.path.stem}{suffix}" for suffix in files]
        for path, content in zip(paths, files.values(), strict=True):
            replace_file(path, content)
        return paths

    def to_dict(self, written: Sequence[str] = ()) -> dict[str, Any]:
        """Convert to JSON types; ``written`` are the names of written files."""
        return {
            "file": str(self.path),
            "ranking": [[name, share] for name, share in self.ranking],
            "summary": self.summary,
            "remark": self.remark,
            "notes": self.notes,
            "written": list(written),
        }


def write_predictions(
    path: Path,  # `.jsonl` or `.csv`
    rows: Sequence[Mapping[str, Any]],  # from `FilePrediction.to_dict`
) -> None:
    """Write predictions atomically as JSON lines, or as CSV with a row per class of each file."""
    if path.suffix.lower() == ".jsonl":
        replace_file(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["file", "rank", "class", "share", "summary", "remark"])
    for row in rows:
        for rank, (name, share) in enumerate(row["ranking"] or [["", ""]], 1):
            table.writerow([row["file"], rank, name, share, row["summary"], row["remark"]])
    replace_file(path, text.getvalue())
