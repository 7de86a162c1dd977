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
    path : Path
        The file.
    ranking : list of (str, float)
        Class names with probabilities, likeliest first; or names of parts with their share of the
        area, largest first.
    notes : str
        What the loader repaired or warned of; empty if nothing.
    files : mapping of str to bytes
        Files that belong to the prediction: what follows the stem of their names, such as
        ``".parts.ply"``, and what they hold.
    remark : str
        What a reader must know of the ranking, such as that the file resembles nothing the model
        was trained on; empty if nothing.
    summary : str
        What is shown in place of a ranking, where there is none.

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
        """Write the prediction files, each atomically.

        Parameters
        ----------
        folder : Path
            Where; it must exist.
        form : str
            Write only those whose names end with it; by default all.

        Returns
        -------
        list of Path
            What was written.
        """
        files = {suffix: c for suffix, c in self.files.items() if suffix.endswith(form)}
        paths = [folder / f"{self.path.stem}{suffix}" for suffix in files]
        for path, content in zip(paths, files.values(), strict=True):
            replace_file(path, content)
        return paths

    def to_dict(self, written: Sequence[str] = ()) -> dict[str, Any]:
        """Convert to JSON types.

        Parameters
        ----------
        written : sequence of str
            What :meth:`write` wrote.
        """
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
