"""Batches, held-out samples, load warnings and report entries of meshes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from equigeo._core.config import Range
from equigeo._core.text import printable, shorten
from equigeo.datasets.class_folders import FRACTIONS, check_split
from equigeo.datasets.meshes import parts_of
from equigeo.mesh import LoadReport, PrimalDualClassifier, PrimalDualSegmenter, TriangleMesh
from equigeo.mesh.geometry.features import SizeName
from equigeo.mesh.repair.repair import LOAD_RANGES, MERGE
from equigeo.tasks.common.arguments import Argument, natural, number, words
from equigeo.training.config import RunConfig
from equigeo.training.process import seed_sequence

MOST_FACES: Final = 2**18  # that are evaluated at once, which takes about half a GiB
TRAINED_FACES: Final = 2**17  # that are trained on at once: about a GiB


def chunks(
    sizes: Iterable[int],
    most: int,  # total size; a larger item is alone
    at_most: int | None = None,  # number of items
    at_least: int = 1,  # number of items before the total size counts
) -> Iterator[list[int]]:
    """Iterate over positions in chunks of limited total size."""
    chosen: list[int] = []
    total = 0
    for i, size in enumerate(sizes):
        if len(chosen) >= at_least and (len(chosen) == at_most or total + size > most):
            yield chosen
            chosen, total = [], 0
        chosen.append(i)
        total += size
    if chosen:
        yield chosen


def batches_by_faces(
    faces: Iterable[int],  # faces of every mesh
    batch_size: int,
    most: int | None = None,  # default: `MOST_FACES`
) -> Iterator[list[int]]:
    """Iterate over positions in batches of limited size and face count; larger meshes are alone."""
    return chunks(faces, MOST_FACES if most is None else most, batch_size)


def divide_by_faces(
    indices: Sequence[int],
    faces: Sequence[int],
    most: int | None = None,  # default: `TRAINED_FACES`
) -> list[list[int]]:
    """Divide a training batch into parts of at most ``most`` faces and at least two meshes."""
    # Batch norms after the read-out need at least two meshes.
    parts = list(chunks(faces, TRAINED_FACES if most is None else most, at_least=2))
    if len(parts) > 1 and len(parts[-1]) < 2:
        last = parts.pop()
        parts[-1] += last
    return [[indices[k] for k in part] for part in parts]


UNKNOWN_EARLIER: Final[dict[str, Any]] = {
    "merge": MERGE, "min_component": 0.0, "sizes": (), "inputs": (), "split": "folder",
}  # fmt: skip
"""Fields that configurations of earlier versions lack, and what those versions did."""


_Config = TypeVar("_Config", bound=RunConfig)


class SplitRunConfig(RunConfig):
    """Base of configurations with a field ``split``: a named protocol, or fractions of files."""

    split: str
    splits: ClassVar[Sequence[str]] = ("folder",)  # named protocols
    built_in: ClassVar[Collection[str]] = ()  # names of data sets that are no path

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fractions and self.data in self.built_in:
            raise ValueError(f"{self.data} has parts of its own, got split {self.split!r}")

    @property
    def fractions(self) -> tuple[float, ...]:
        """Fractions of training, optionally validation, and test files; empty: a named split."""
        named = self.split in self.splits
        return () if named else check_split(self.split.split(","), self.splits)

    @classmethod
    def from_dict(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        if isinstance(values, Mapping):
            values = {"split": "folder", **values}  # earlier versions lack it
        return super().from_dict(values)


_SplitConfig = TypeVar("_SplitConfig", bound=SplitRunConfig)


def evaluated_config(
    config: _SplitConfig,  # of the training, with `holdout`
    data: str | None,
    split: str | None,
    **changes: Any,
) -> _SplitConfig:
    """Return the configuration to evaluate on: the test part of other data or another split."""
    if data not in (None, config.data):
        changes |= {"data": data, "holdout": 0}
        changes |= {"split": "folder"} if config.fractions else {}
    if split is not None:
        changes |= {"split": split, "holdout": 0}
    return replace(config, **changes)


BUILTIN: Final = "builtin"


@dataclass(frozen=True)
class MeshRunConfig(SplitRunConfig):
    """Configuration of a run on mesh files; see `equigeo.mesh.load_mesh` for its fields."""

    merge: float = MERGE
    min_component: float = 0.0
    sizes: tuple[SizeName, ...] = ()
    inputs: tuple[str, ...] = ()
    split: str = "folder"

    built_in: ClassVar[Collection[str]] = (BUILTIN,)
    ranges: ClassVar[Mapping[str, Range]] = {**RunConfig.ranges, **LOAD_RANGES}

    @property
    def loading(self) -> dict[str, Any]:
        """Arguments of ``load_mesh``."""
        return {name: getattr(self, name) for name in (*LOAD_RANGES, "inputs")}

    @classmethod
    def from_dict(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        if isinstance(values, Mapping):
            values = {**UNKNOWN_EARLIER, **values}
        return super().from_dict(values)


LOADING: Final = (
    Argument(
        "--merge", "merge boundary edges that are so close", number, metavar="X",
        unit="diagonals of the bounding box",
    ),
    Argument(
        "--min-component", "drop components of a mesh below this share of its area", number,
        metavar="X", unit="share",
    ),
)  # fmt: skip
"""Options of the fields of `MeshRunConfig`."""
HOLDOUT: Final = Argument(
    "--holdout",
    "evaluate on N training samples, per class in classification, held out, and leave the test part"
    " unseen", natural, metavar="N", unit="training samples",
)  # fmt: skip
SPLIT: Final = Argument(
    "--split", f"draw the parts by {FRACTIONS} (default: the parts of the folder)",
    metavar="FRACTIONS",
)  # fmt: skip
EVALUATED_SPLIT: Final = Argument(
    "--split", "split to evaluate on (default: that of the training)", metavar="folder|FRACTIONS"
)
INPUTS: Final = (
    Argument(
        "--sizes", "read the logarithms of these sizes of a mesh, too: area, volume, length;"
        " without, predictions do not depend on scale", words, metavar="NAME,...",
    ),
    Argument(
        "--inputs", "read these properties of the faces or vertices of the files, too, such as"
        " red,green,blue", words, metavar="NAME,...",
    ),
)  # fmt: skip
"""The same for what the network reads."""
RELOADING: Final = tuple(
    replace(argument, help=f"{argument.help} (default: as in training)") for argument in LOADING
)
"""The same for a trained model."""


def evaluated_part(trained: Any) -> str:
    """Return the name of the samples that a run was evaluated on."""
    if any(name.startswith("val_") for line in trained.history for name in line):
        return "validation"
    return "held-out" if getattr(trained.config, "holdout", False) else "test"


VALIDATED: Final = "val_accuracy"  # in the history of a run with a validation split


def has_validation(val: object | None, holdout: int) -> bool:
    """Return whether data have a validation split; raise if samples are held out, too."""
    if val is not None and holdout > 0:
        raise ValueError("the data have a validation split, val; leave out --holdout")
    return val is not None


def hold_out(
    labels: Tensor,  # (all samples,)
    positions: Tensor,  # (samples,) ascending
    number: int,
    *draw: int,  # number of the draw
    groups: Tensor | None = None,  # (all samples,) groups stay together and count as one
) -> tuple[Tensor, Tensor]:
    """Split samples into training positions and ``number`` held-out samples per class."""
    # The draw is independent of the seed of a run, so that runs are comparable.
    if groups is None:
        groups = torch.arange(len(labels))
    held: list[int] = []
    for label in range(int(labels.max()) + 1):
        members = groups[positions[labels[positions] == label]].unique().numpy()
        # a stream for each class: adding a class leaves the draws of the others as they were
        stream = np.random.default_rng(seed_sequence(0, "holdout", *draw, label))
        held += stream.permutation(members)[:number].tolist()
    is_held = torch.isin(groups[positions], torch.tensor(held, dtype=torch.long))
    return positions[~is_held], positions[is_held]


def split_summary(
    config: MeshRunConfig,
    dataset: Any,  # with the marks of `parts_of`
    names: Sequence[str] = ("all",),  # of classes
    labels: Tensor | None = None,  # (samples,) classes
) -> str:
    """Return the number of meshes in each drawn part, per class; empty if none were drawn."""
    if not config.fractions:
        return ""
    labels = torch.zeros(len(dataset)) if labels is None else labels
    classes: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for i, name in enumerate(names):
        sizes = tuple(int((part & (labels == i)).sum()) for part in parts_of(dataset))
        classes[sizes].append(printable(name))
    counts = "; ".join(
        f"{', '.join(alike)}: {' + '.join(map(str, sizes))}" for sizes, alike in classes.items()
    )
    return f"training + validation + test meshes of {counts}"


_log = logging.getLogger(__name__)

_MUCH = 0.01  # share of the area of a mesh, beyond which its loss is worth a warning
_NAMED = 3  # meshes that the warning names
_LONGEST = 100  # characters of a name


def repair_summary(
    reports: Sequence[LoadReport],  # of all meshes, or empty
) -> str:
    """Return the repairs of a data set on one line; empty if there were none."""
    repaired = [report for report in reports if not report.is_clean]
    if not repaired:
        return ""
    totals: dict[str, int] = {}
    for report in repaired:
        for action, count in asdict(report.counts).items():
            totals[action] = totals.get(action, 0) + count
    listed = ", ".join(f"{action.replace('_', ' ')} {n}" for action, n in totals.items() if n)
    return f"{len(repaired)} of {len(reports)} meshes repaired ({listed})"


def warn_of_lost_area(
    names: Sequence[str],  # of all meshes, sanitised here
    reports: Sequence[LoadReport],  # of all meshes, or empty
) -> None:
    """Log one warning if meshes lack more than 1 % of the surface area of their files."""
    if not reports:
        return
    pairs = zip(names, reports, strict=True)
    lossy = [(report.lost_area, name) for name, report in pairs if report.lost_area > _MUCH]
    if lossy:
        lossy.sort(key=lambda pair: (-pair[0], pair[1]))
        worst = (f"{printable(shorten(n, _LONGEST))} {share:.1%}" for share, n in lossy[:_NAMED])
        _log.warning(
            "%d of %d meshes lack more than %.0f %% of the area of their files, most of all %s; "
            "repair these files, or load them alone to see what was dropped",
            len(lossy), len(reports), 100 * _MUCH, ", ".join(worst),
        )  # fmt: skip


LARGEST_SHOWN: Final = 20_000  # faces; a larger mesh would make the page slow to open


def shape_geometry(
    model: PrimalDualClassifier | PrimalDualSegmenter, name: str, mesh: TriangleMesh
) -> dict[str, Any]:
    """Return geometry, received attention and clusters of a mesh for reports, as JSON types."""
    device = next(model.parameters()).device
    seen = mesh.vertices[mesh.faces].flatten(0, 1)
    middle = (seen.amin(0) + seen.amax(0)) / 2 if len(seen) else 0.0
    found = model.inspect(model.graph(mesh).to(device))
    return {
        "name": name,
        # five digits are more than the eye sees, and half the bytes
        "vertices": [[float(f"{x:.5g}") for x in row] for row in (mesh.vertices - middle).tolist()],
        "faces": mesh.faces.tolist(),
        "levels": [level.tolist() for level in found.clusters],
        "attention": [[round(x, 3) for x in block.tolist()] for block in found.attention],
    }


def report_facts(summary: str) -> list[tuple[str, str]]:
    """Convert the lines of a load report to (name, value) facts."""
    lines = summary.splitlines()
    names = ["file", "surface", *["repair"] * len(lines)]
    return list(zip(names, lines, strict=False))
