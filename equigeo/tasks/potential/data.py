"""Frames with precomputed edges, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit, load_atomic_split
from equigeo.datasets.atoms.atomic_frames import place_of
from equigeo.graphs import EdgeIndex
from equigeo.potentials import AtomicBatch
from equigeo.tasks.divide_by_faces import chunks
from equigeo.tasks.potential.config import PotentialRunConfig
from equigeo.training.labelled_source import LabelledSource, digest
from equigeo.training.random_state import seed_sequence

_EDGES = 20_000  # of a batch that is evaluated
_ALIGNED = 1e-6  # of the square of a Cartesian axis, which may lie out of periodic vectors


@dataclass(frozen=True, eq=False)
class AtomicSamples:
    """Atoms of several frames with their labels; missing labels are NaN."""

    atoms: AtomicBatch
    energy: Tensor  # (frames,) float64, total energy in eV
    forces: Tensor  # (atoms, 3) in eV/angstrom
    stress: Tensor  # (frames, 3, 3) float64, in eV/angstrom^3

    __repr__ = brief_fields

    def to(self, device: torch.device) -> AtomicSamples:
        """Move to a device."""
        moved = (x.to(device) for x in (self.energy, self.forces, self.stress))
        return AtomicSamples(self.atoms.to(device), *moved)

    @property
    def counts(self) -> Tensor:
        """Number of atoms of every frame, (frames,), int64."""
        return self.atoms.ptr.diff()


@dataclass(frozen=True, eq=False)
class AtomicSource(LabelledSource):
    """Source of atomic frames with edges, one sample per frame; labels are zeros (no classes)."""

    parts: tuple[AtomicSamples, ...]
    frames: AtomicFrames
    labels: Tensor = field(init=False, repr=False)

    smallest: ClassVar[int] = 1  # nothing is normalised over a batch

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        """Set labels that take no memory."""
        labels = torch.zeros((), dtype=torch.int64).expand(len(self.parts))
        object.__setattr__(self, "labels", labels)

    @classmethod
    def of_frames(
        cls, frames: AtomicFrames, cutoff: float, dtype: torch.dtype | None = None
    ) -> AtomicSource:
        """Build the edges of every frame within ``cutoff``, in angstrom.

        ``dtype`` is that of positions and forces. Default: PyTorch's default.
        """
        return cls(tuple(_sample(frames, k, cutoff, dtype) for k in range(len(frames))), frames)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> AtomicSamples:
        """Join some frames; training adds no noise."""
        return join([self.parts[k] for k in chosen.tolist()])

    def digests(self) -> Tensor:
        """Return digests of the structures and of their energies, forces and stresses."""
        labels = [_digest(frame.energy, frame.forces, frame.stress) for frame in self.frames]
        return torch.stack([frame_digests(self.frames), torch.tensor(labels)], dim=1)

    def few_at_a_time(self) -> Iterator[AtomicSamples]:
        """Iterate over all frames in order, in batches of a moderate number of edges."""
        sizes = (part.atoms.edge_index.shape[1] for part in self.parts)
        for chosen in chunks(sizes, _EDGES):
            yield join([self.parts[k] for k in chosen])

    @property
    def avg_neighbors(self) -> float:
        """Mean number of neighbours per atom."""
        edges = sum(part.atoms.edge_index.shape[1] for part in self.parts)
        return edges / sum(len(part.atoms.numbers) for part in self.parts)


def _sample(
    frames: AtomicFrames, number: int, cutoff: float, dtype: torch.dtype | None
) -> AtomicSamples:
    frame = frames[number]
    system = (frame.numbers, frame.positions, frame.cell if any(frame.pbc) else None, frame.pbc)
    try:
        atoms = AtomicBatch.from_systems([system], cutoff, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place_of(frames, number)}: {error}") from error
    nan = torch.tensor(torch.nan, dtype=torch.float64)
    forces = nan.expand(len(frame), 3) if frame.forces is None else frame.forces
    stress = nan.expand(3, 3) if frame.stress is None else _learned_stress(frame)
    energy = nan if frame.energy is None else torch.tensor(frame.energy, dtype=torch.float64)
    dtype = atoms.positions.dtype
    return AtomicSamples(atoms, energy[None], forces.to(dtype), stress[None])


def _learned_stress(frame: AtomicFrame) -> Tensor:
    """Stress of a frame with NaN across axes that are not periodic, where programs differ."""
    if frame.stress is None or frame.cell is None or all(frame.pbc):
        return torch.as_tensor(frame.stress)
    rows = frame.cell[torch.tensor(frame.pbc)]
    within = (torch.linalg.pinv(rows) @ rows).diagonal() > 1 - _ALIGNED
    return frame.stress.masked_fill(~(within[:, None] & within), torch.nan)


def join(parts: Sequence[AtomicSamples]) -> AtomicSamples:
    """Concatenate samples of one cutoff; sorted edges stay sorted without a new neighbour list."""
    if len(parts) == 1:
        return parts[0]
    return AtomicSamples(
        _join_atoms([part.atoms for part in parts]),
        torch.cat([part.energy for part in parts]),
        torch.cat([part.forces for part in parts]),
        torch.cat([part.stress for part in parts]),
    )


def _join_atoms(parts: Sequence[AtomicBatch]) -> AtomicBatch:
    edges = EdgeIndex.disjoint_union([part.edges for part in parts])
    counts = [len(part.numbers) for part in parts]
    systems = torch.tensor([0, *(part.num_systems for part in parts)]).cumsum(0).tolist()
    atoms = torch.tensor([0, *counts]).cumsum(0).tolist()
    ptr = [part.ptr[1:] + start for part, start in zip(parts, atoms[:-1], strict=True)]
    batch = [part.batch + start for part, start in zip(parts, systems[:-1], strict=True)]
    joined = AtomicBatch(
        numbers=torch.cat([part.numbers for part in parts]),
        positions=torch.cat([part.positions for part in parts]),
        cell=_join_cells(parts),
        pbc=torch.cat([part.pbc for part in parts]),
        edge_index=edges.edge_index,
        shifts=torch.cat([part.shifts for part in parts]),
        batch=torch.cat(batch),
        ptr=torch.cat([parts[0].ptr[:1], *ptr]),
        cutoff=parts[0].cutoff,
    )
    joined.__dict__["edges"] = edges  # the union of what every frame has kept
    return joined


def _join_cells(parts: Sequence[AtomicBatch]) -> Tensor | None:
    if all(part.cell is None for part in parts):
        return None
    return torch.cat(
        [
            part.positions.new_zeros(part.num_systems, 3, 3) if part.cell is None else part.cell
            for part in parts
        ]
    )


@dataclass(frozen=True, eq=False)
class PotentialData:
    """Training, validation and test frames of a run.

    Examples
    --------
    >>> from equigeo.datasets import AtomicFrame, AtomicSplit
    >>> atom = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3).double(), energy=0.5)
    >>> frames = AtomicFrames((atom,))
    >>> len(PotentialData(AtomicSplit("one atom", frames), frames, frames).train)
    1
    """

    split: AtomicSplit
    train: AtomicFrames
    validation: AtomicFrames

    __repr__ = brief_fields


def load_frames(config: PotentialRunConfig) -> PotentialData:
    """Load a data set and split off validation frames.

    The remark of the split counts validation and test frames that are training frames as well.
    Errors name the file, the frame and the keys of the file.

    Examples
    --------
    >>> load_frames(PotentialRunConfig("nowhere"))
    Traceback (most recent call last):
        ...
    ValueError: nowhere: no such file or folder
    """
    split = load_atomic_split(
        config.data,
        config.subset,
        energy=config.energy_key,
        forces=config.forces_key,
        stress=config.stress_key,
        cutoff=config.cutoff,
    )
    if config.energy_weight:
        split.train.require("energy")
    if config.forces_weight:
        split.train.require("forces")
    if config.stress_weight and len(split.train.lacking("stress")) == len(split.train):
        raise ValueError(
            f"{split.train.name}: no frame with a periodic axis and a cell has a stress, and its "
            f"weight is {config.stress_weight:g}{split.train.found_keys}"
        )
    number = len(split.train)
    if config.validation >= number:
        raise ValueError(
            f"{config.data}: has {number} training frames, too few to put {config.validation} of "
            "them aside for validation; choose fewer with --validation"
        )
    # independent of the seed of the run: runs are comparable
    order = np.random.default_rng(seed_sequence(0, "validation")).permutation(number).tolist()
    kept, aside = sorted(order[config.validation :]), sorted(order[: config.validation])
    train, validation = split.train.select(kept), split.train.select(aside)
    twice = _twice(train, {"validation": validation, **split.tests})
    remark = "; ".join(filter(None, (split.remark, twice)))
    return PotentialData(replace(split, remark=remark), train, validation)


def _twice(train: AtomicFrames, others: Mapping[str, AtomicFrames]) -> str:
    """Return the names of sets with frames that also occur in the training set."""
    known = frame_digests(train)
    counts = {
        name: int(torch.isin(frame_digests(part), known).sum()) for name, part in others.items()
    }
    found = [
        f"{count} of {len(others[name])} frames of {name}"
        for name, count in counts.items()
        if count
    ]
    return f"training frames are repeated: {', '.join(found)}" if found else ""


def frame_digests(frames: AtomicFrames) -> Tensor:
    """Return digests of elements, positions and periodic cells, (frames,), int64."""
    found = [
        _digest(frame.numbers, frame.positions, frame.pbc, frame.cell if any(frame.pbc) else None)
        for frame in frames
    ]
    return torch.tensor(found, dtype=torch.int64)


def _digest(*values: Tensor | Sequence[bool] | float | None) -> int:
    """Return a digest of numbers in float64; None stands for a missing one."""
    none = torch.empty(0, dtype=torch.float64)
    return digest(
        *(none if value is None else torch.as_tensor(value, dtype=none.dtype) for value in values)
    )


def check_species(
    frames: AtomicFrames,
    species: Sequence[int],  # supported atomic numbers
    names: str,  # symbols of the species, for the message
) -> None:
    """Raise for the first frame with an element that the potential does not support."""
    for k, frame in enumerate(frames):
        unknown = _unknown(frame, species)
        if unknown:
            raise ValueError(
                f"{place_of(frames, k)} has {unknown}, and the potential knows {names} alone"
            )


def _unknown(frame: AtomicFrame, species: Sequence[int]) -> str:
    from equigeo.datasets.atoms.chemical_symbols import symbol

    return " ".join(symbol(z) for z in sorted(set(frame.numbers.tolist()) - set(species)))
