"""What a model makes of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from equigeo.nn.brief import brief_fields
from equigeo.training.files.replace_file import replace_file


@dataclass(frozen=True)
class FilePrediction:
    """The likeliest classes of a file, the parts that it has, or what else was found of it.

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
    """

    path: Path
    ranking: list[tuple[str, float]]
    notes: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""
    summary: str = ""

    __repr__ = brief_fields

    def write(self, folder: Path, form: str = "") -> list[Path]:
        """Write the files; each is the old or the new one at any moment.

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
