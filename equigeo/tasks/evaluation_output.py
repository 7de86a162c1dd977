"""What an evaluation gives to show and to write."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equigeo.datasets.replace_file import replace_file
from equigeo.nn.brief import brief_fields


@dataclass(frozen=True)
class EvaluationOutput:
    """What ``equigeo evaluate`` shows and writes.

    Parameters
    ----------
    text : str
        For the terminal.
    results : dict of JSON types
        For other programs.
    page : str
        A report in HTML, if the task writes one.
    """

    text: str
    results: dict[str, Any]
    page: str = ""

    __repr__ = brief_fields

    def write_results(self, path: Path) -> None:
        """Write the results as JSON; the file is the old or the new one at any moment."""
        replace_file(path, json.dumps(self.results, indent=1) + "\n")

    def write_page(self, path: Path) -> None:
        """Write the report; the file is the old or the new one at any moment."""
        replace_file(path, self.page)
