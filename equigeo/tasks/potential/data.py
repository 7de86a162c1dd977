"""Configuration and data source of runs on atomic frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Final, Literal

import numpy as np
import torch
from torch import Tensor

from equigeo._core.brief import brief_fields, shown
from equigeo._core.checks import USUAL_STATE, state_of
from equigeo._core.config import Range, ranges_of, within
from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit, load_atomic_split
from equigeo.datasets.atoms.extxyz import Units
from equigeo.datasets.atoms.frames import place_of
from equigeo.graphs import EdgeIndex
from equigeo.potentials import AtomicBatch, PotentialConfig
from equigeo.potentials.batch import has_stress, states_of
from equigeo.potentials.config import DEGREES, NodeName, ProductName
from equigeo.tasks.common.mesh_data import chunks
from equigeo.training.checkpoint import Checkpoint
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledSource, digest
from equigeo.training.process import seed_sequence

LABELS: Final = ("energy", "forces", "stress")
_LONGEST: Final = 4096  # characters of a path
_MANY: Final = 100_000  # epochs, of a run that ends by the clock
_RANGED: Final = ("cutoff", "channels", "lmax_edge", "lmax_hidden", "layers", "correlation")
_TEXTS: Final = (
    "energy_key", "forces_key", "stress_key", "units", "start_from", "freeze", "replay",
    "heads", "head", "inputs",
)  # fmt: skip
SIZES: Final = (*_RANGED, "product", "node", "zbl")
"""Fields of the configuration that are those of the potential."""


@dataclass(frozen=True)
class PotentialPreset:
    """Recipe and other fields of the configuration of a preset."""

    recipe: Recipe
    settings: Mapping[str, Any] = field(default_factory=dict)


# Time-limited runs: specification of the potentials, section 2.5. Averages of the weights are
# evaluated and saved.
_RECIPE: Final = Recipe(
    epochs=_MANY, batch_size=5, learning_rate=0.01, optimizer="adam", schedule="warm_cosine",
    warmup=100, ema_decay=0.99, clip_norm=10.0, minutes=15.0,
)  # fmt: skip
POTENTIAL_PRESETS: Final[dict[str, PotentialPreset]] = {
    "default": PotentialPreset(_RECIPE),
    "small": PotentialPreset(_RECIPE, {"channels": 16, "lmax_edge": 2}),
    "crystal": PotentialPreset(
        replace(_RECIPE, batch_size=2),
        {"channels": 16, "energy_weight": 100.0, "forces_weight": 10.0, "stress_weight": 100.0,
         "validation": 10},
    ),
    "energies": PotentialPreset(
        replace(_RECIPE, batch_size=16), {"forces_weight": 0.0, "validation": 500}
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PotentialRunConfig(RunConfig):
    """Configuration of a potential's training run, saved as ``config.json``.

    Parameters
    ----------
    data : str
        See :func:`equigeo.datasets.load_atomic_split`.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; label smoothing, adjustment and jitter must be 0.
    preset : {"default", "small", "crystal", "energies"}
        Recipe, size of the model, and weights of the loss.
    subset : str
        One of several sets of the data: a molecule, an element, ``3BPA``.
    validation : int
        Number of training frames held out for validation, equal for all seeds.
    energy_weight, forces_weight, stress_weight : float
        Weights of mean squares in (eV/atom)^2, (eV/angstrom)^2 and (eV/angstrom^3)^2. Labels with a
        weight must be in every frame, stresses in at least one.
    dipole_weight, polarizability_weight : float
        Weights of mean squares in (e angstrom/atom)^2 and (angstrom^3/atom)^2. If positive, the
        potential has this output, and at least one frame must have the label.
    huber_delta : float
        Huber's loss: errors above it, in eV/atom, eV/angstrom and so on, count linearly.
    energy_key, forces_key, stress_key, units : str
        Names of the labels, and units, in extended XYZ. Default: the usual names, eV and angstrom,
        see :func:`equigeo.datasets.read_extxyz`.
    compile : bool
        Compile the training step: up to two minutes. Small molecules then train nearly 2x faster.
    product, node, correlation, cutoff, channels, layers, lmax_edge, lmax_hidden, zbl
        See :class:`equigeo.potentials.PotentialConfig`.
    inputs : tuple of str
        "charge" and "spin" if energies depend on these entries of frames: the total charge and the
        spin multiplicity, by default 0 and 1. The potential knows the values of the training data.
    start_from : str
        Checkpoint of a potential to fine-tune, whose sizes the configuration must have; empty for
        weights drawn at random. Its scale and number of neighbors are kept, reference energies are
        shifted to fit the training frames, and new elements are added.
    freeze : tuple of str
        Parts that are not trained: "embedding", "radial" (all networks of distances), "layers.0" to
        the last, or "body", which is all but the read-outs.
    replay : str
        Earlier data, loaded like ``data``: a share of the training frames of every epoch is drawn
        from theirs, and as many are held out. Extended XYZ is read with the keys and units of the
        run that ``start_from`` names, not with those of ``data``. Without heads, both sets must
        have one level of theory, and reference energies of known elements are kept.
    replay_share : float
        Share of the frames of an epoch, between 0 and 1.
    heads : tuple of str
        Names of levels of theory, for each of which the last read-out and the reference energies
        are separate; the first is the default. Frames have theirs as the entry ``head``. Frames
        to replay without it are of the last head.
    head : str
        Head of other frames without that entry; empty for the first.
    lora : int
        Train updates of the weights with this rank instead of the weights; 0 trains the weights.
        The checkpoint has the sums. Embeddings of elements are not trained.

    Examples
    --------
    >>> config = PotentialRunConfig.of_preset("rmd17", "small")
    >>> PotentialRunConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = POTENTIAL_PRESETS["default"].recipe
    preset: Literal["default", "small", "crystal", "energies"] = "default"
    subset: str = ""
    validation: int = within(1, 10**6, default=50)
    energy_weight: float = within(0.0, 1e9, default=1.0)
    forces_weight: float = within(0.0, 1e9, default=100.0)
    stress_weight: float = within(0.0, 1e9, default=0.0)
    dipole_weight: float = within(0.0, 1e9, default=0.0)
    polarizability_weight: float = within(0.0, 1e9, default=0.0)
    huber_delta: float = within(0.0, 1e9, default=0.0)
    energy_key: str = ""
    forces_key: str = ""
    stress_key: str = ""
    units: str = ""
    compile: bool = False
    product: ProductName = "channelwise"
    node: NodeName = "contraction"
    correlation: int = 3
    cutoff: float = 5.0
    channels: int = 32
    layers: int = 2
    lmax_edge: int = 3
    lmax_hidden: int = 1
    zbl: bool = False
    inputs: tuple[str, ...] = ()
    start_from: str = ""
    freeze: tuple[str, ...] = ()
    lora: int = within(0, 4096, default=0)
    heads: tuple[str, ...] = ()
    head: str = ""
    replay: str = ""
    replay_share: float = within(0.0, 1.0, above=True, below=True, default=0.5)

    recipes: ClassVar[Mapping[str, Recipe]] = {
        name: preset.recipe for name, preset in POTENTIAL_PRESETS.items()
    }
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "jitter", "update_bn",
    )  # fmt: skip
    samples: ClassVar[str] = "frames of atoms"
    ranges: ClassVar[Mapping[str, Range]] = {
        name: ranges_of(PotentialConfig)[name] for name in _RANGED
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any((*self.weights, *self.outputs)):
            raise ValueError("one of the weights of energies, forces and stresses must be positive")
        for name in _TEXTS:
            value = getattr(self, name)
            if len(value if isinstance(value, str) else ",".join(value)) > _LONGEST:
                raise ValueError(f"{name} must have at most {_LONGEST} characters")
        if unknown := [name for name in self.inputs if name not in USUAL_STATE]:
            raise ValueError(f"inputs must be among {', '.join(USUAL_STATE)}, got {shown(unknown)}")
        if self.processes > 1 and (self.lora or self.heads):
            raise ValueError(
                f"low-rank updates and heads must have one device, got {self.processes}"
            )
        known = {"", *self.heads}
        if self.head not in known or len(known) <= len(self.heads) or len(self.heads) == 1:
            raise ValueError(
                f"heads must be two or more different names, and head one of them, got "
                f"{shown(list(self.heads))} and {shown(self.head)}"
            )
        if self.units:
            Units.parse(self.units)

    @property
    def weights(self) -> tuple[float, float, float]:
        """Weights of energies, forces and stresses."""
        return self.energy_weight, self.forces_weight, self.stress_weight

    @property
    def outputs(self) -> dict[str, float]:
        """Positive weights of further outputs, by name."""
        found = {name: getattr(self, f"{name}_weight") for name in DEGREES}
        return {name: weight for name, weight in found.items() if weight}

    @classmethod
    def of_preset(cls, data: str, preset: str = "default") -> PotentialRunConfig:
        base = super().of_preset(data, preset)
        return cls(base.data, base.recipe, base.preset, **POTENTIAL_PRESETS[preset].settings)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PotentialRunConfig:
        if isinstance(values, Mapping):
            values = {**UNKNOWN_EARLIER, **values}
        return super().from_dict(values)

    def model(
        self, species: tuple[int, ...], states: Mapping[str, Sequence[int]] | None = None
    ) -> PotentialConfig:
        """Return the configuration of a potential for some elements, charges and spins."""
        known = {f"{name}s": tuple(values) for name, values in (states or {}).items()}
        sizes: dict[str, Any] = {name: getattr(self, name) for name in SIZES}
        sizes["outputs"] = tuple(self.outputs)
        return PotentialConfig(species=species, **(sizes | known))


UNKNOWN_EARLIER: Final[Mapping[str, Any]] = {
    "units": "", "zbl": False, "start_from": "", "freeze": [], "lora": 0, "replay": "",
    "replay_share": 0.5, "heads": [], "head": "", "inputs": [],
    "dipole_weight": 0.0, "polarizability_weight": 0.0, "huber_delta": 0.0,
}  # fmt: skip
"""Fields that configurations of earlier versions lack, as JSON types."""


_EDGES = 20_000  # of a batch that is evaluated
_ALIGNED = 1e-6  # of the square of a Cartesian axis, which may lie out of periodic vectors


@dataclass(frozen=True, eq=False)
class AtomicSamples:
    """Atoms of several frames with their labels; missing labels are NaN."""

    atoms: AtomicBatch
    energy: Tensor  # (frames,) float64, total energy in eV
    forces: Tensor  # (atoms, 3) in eV/angstrom
    stress: Tensor  # (frames, 3, 3) float64, in eV/angstrom^3
    dipole: Tensor  # (frames, 3) float64, in e angstrom
    polarizability: Tensor  # (frames, 3, 3) float64, in angstrom^3
    # (6,) float64: frames, and labels of energies, of force and stress components and of both
    # moments in the step over all processes
    labeled: Tensor
    head: int = field(default=0, kw_only=True)  # of all frames

    __repr__ = brief_fields

    def to(self, device: torch.device) -> AtomicSamples:
        """Move to a device."""
        moved = (getattr(self, f.name).to(device) for f in fields(self) if f.name != "head")
        return AtomicSamples(*moved, head=self.head)

    @property
    def counts(self) -> Tensor:
        """Number of atoms of every frame, (frames,), int64."""
        return self.atoms.ptr.diff()


@dataclass(frozen=True, eq=False)
class AtomicSource(LabelledSource):
    """Source of atomic frames with edges, one sample per frame; labels are zeros (no classes)."""

    parts: tuple[AtomicSamples, ...]
    frames: AtomicFrames
    earlier: Tensor | None = None  # digests of other frames that the initial weights have learned
    labels: Tensor = field(init=False, repr=False)

    smallest: ClassVar[int] = 1  # nothing is normalized over a batch

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        """Set labels that take no memory."""
        labels = torch.zeros((), dtype=torch.int64).expand(len(self.parts))
        object.__setattr__(self, "labels", labels)

    @classmethod
    def of_frames(
        cls,
        frames: AtomicFrames,
        cutoff: float,
        dtype: torch.dtype | None = None,
        heads: Sequence[str] = (),
        head: str = "",
    ) -> AtomicSource:
        """Build the edges of every frame within ``cutoff``, in angstrom.

        ``dtype`` is that of positions and forces. Default: PyTorch's default. Of several ``heads``,
        frames without the entry ``head`` have the given one.
        """
        numbers = [heads.index(name) for name in heads_of(frames, heads, head)] if heads else None
        parts = (_sample(frames, k, cutoff, dtype) for k in range(len(frames)))
        if numbers is not None:
            parts = (replace(p, head=n) for p, n in zip(parts, numbers, strict=True))
        return cls(tuple(parts), frames)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> AtomicSamples:
        return join([self.parts[k] for k in chosen.tolist()])

    def split(self, indices: Sequence[int]) -> list[list[int]]:
        order = sorted(indices, key=lambda k: self.parts[k].head)
        return [[*same] for _, same in groupby(order, key=lambda k: self.parts[k].head)]

    def of_step(self, batch: Any, chosen: Sequence[int]) -> Any:
        labeled = torch.stack([self.parts[k].labeled for k in chosen]).sum(0)
        return replace(batch, inputs=replace(batch.inputs, labeled=labeled))

    def digests(self) -> Tensor:
        labels = []
        for frame in self.frames:
            moments = (x for x in map(partial(_known, frame), DEGREES) if x is not None)
            labels.append(_digest(frame.energy, frame.forces, frame.stress, *moments))
        own = torch.stack([frame_digests(self.frames), torch.tensor(labels)], dim=1)
        return own if self.earlier is None else torch.cat([own, self.earlier])

    def few_at_a_time(self) -> Iterator[AtomicSamples]:
        """Iterate over all frames in order, in batches of a moderate number of edges."""
        sizes = (part.atoms.edge_index.shape[1] for part in self.parts)
        for chosen in chunks(sizes, _EDGES):
            for _, same in groupby((self.parts[k] for k in chosen), key=lambda part: part.head):
                yield join([*same])

    @property
    def avg_neighbors(self) -> float:
        """Mean number of neighbors per atom."""
        edges = sum(part.atoms.edge_index.shape[1] for part in self.parts)
        return edges / sum(len(part.atoms.numbers) for part in self.parts)


def _sample(
    frames: AtomicFrames, number: int, cutoff: float, dtype: torch.dtype | None
) -> AtomicSamples:
    frame = frames[number]
    system = (frame.numbers, frame.positions, frame.cell if any(frame.pbc) else None, frame.pbc)
    try:
        states, moments = states_of([frame.info]), map(partial(_known, frame), DEGREES)
        atoms = AtomicBatch.from_systems([system], cutoff, dtype=dtype, **states)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place_of(frames, number)}: {error}") from error
    nan = torch.tensor(torch.nan, dtype=torch.float64)
    forces = nan.expand(len(frame), 3) if frame.forces is None else frame.forces
    stress = nan.expand(3, 3) if frame.stress is None else _learned_stress(frame)
    energy = nan if frame.energy is None else torch.tensor(frame.energy, dtype=torch.float64)
    dtype = atoms.positions.dtype
    known = ~stress.isnan() & has_stress(atoms)
    missing = nan.expand(3), nan.expand(3, 3)
    dipole, polarizability = (
        x if found is None else found for x, found in zip(missing, moments, strict=True)
    )
    there = [~x.isnan() for x in (energy, forces, stress, dipole, polarizability)]
    there[2] = known
    labeled = torch.tensor([1, *(int(x.sum()) for x in there)], dtype=torch.float64)
    return AtomicSamples(
        atoms, energy[None], forces.to(dtype), stress[None], dipole[None], polarizability[None],
        labeled,
    )  # fmt: skip


def _known(frame: AtomicFrame, name: str) -> Tensor | None:
    """Return the dipole or the polarizability of a frame that has a valid one."""
    try:
        return None if name not in frame.info else moment_of(frame, name)
    except ValueError:
        return None


def moment_of(frame: AtomicFrame, name: str) -> Tensor:
    """Return a label that is an entry of a frame, in float64."""
    found = torch.as_tensor(np.asarray(frame.info[name], np.float64))
    shape = (3,) * DEGREES[name]
    if found.numel() != 3 ** DEGREES[name] or not bool(found.isfinite().all()):
        raise ValueError(f"{name} must be {shape} finite numbers, got {shown(frame.info[name])}")
    if name == "dipole" and any(frame.pbc):
        raise ValueError("a dipole needs pbc=False: it depends on the choice of the cell")
    return found.reshape(shape)


def _learned_stress(frame: AtomicFrame) -> Tensor:
    """Stress of a frame with NaN across axes that are not periodic, where programs differ."""
    if frame.stress is None or frame.cell is None or all(frame.pbc):
        return torch.as_tensor(frame.stress)
    rows = frame.cell[torch.tensor(frame.pbc)]
    within = (torch.linalg.pinv(rows) @ rows).diagonal() > 1 - _ALIGNED
    return frame.stress.masked_fill(~(within[:, None] & within), torch.nan)


def join(parts: Sequence[AtomicSamples]) -> AtomicSamples:
    """Concatenate samples of one cutoff; sorted edges stay sorted without a new neighbor list."""
    if len(parts) == 1:
        return parts[0]
    return AtomicSamples(
        _join_atoms([part.atoms for part in parts]),
        torch.cat([part.energy for part in parts]),
        torch.cat([part.forces for part in parts]),
        torch.cat([part.stress for part in parts]),
        torch.cat([part.dipole for part in parts]),
        torch.cat([part.polarizability for part in parts]),
        torch.stack([part.labeled for part in parts]).sum(0),
        head=parts[0].head,
    )


def _join_atoms(parts: Sequence[AtomicBatch]) -> AtomicBatch:
    edges = EdgeIndex.disjoint_union([part.edges for part in parts])
    counts = [len(part.numbers) for part in parts]
    systems = torch.tensor([0, *(part.num_systems for part in parts)]).cumsum(0).tolist()
    atoms = torch.tensor([0, *counts]).cumsum(0).tolist()
    ptr = [part.ptr[1:] + start for part, start in zip(parts, atoms[:-1], strict=True)]
    batch = [part.batch + start for part, start in zip(parts, systems[:-1], strict=True)]
    cells = [
        part.positions.new_zeros(part.num_systems, 3, 3) if part.cell is None else part.cell
        for part in parts
    ]
    joined = AtomicBatch(
        numbers=torch.cat([part.numbers for part in parts]),
        positions=torch.cat([part.positions for part in parts]),
        cell=None if all(part.cell is None for part in parts) else torch.cat(cells),
        pbc=torch.cat([part.pbc for part in parts]),
        edge_index=edges.edge_index,
        shifts=torch.cat([part.shifts for part in parts]),
        batch=torch.cat(batch),
        ptr=torch.cat([parts[0].ptr[:1], *ptr]),
        cutoff=parts[0].cutoff,
        charge=_join_states(parts, "charge"),
        spin=_join_states(parts, "spin"),
    )
    joined.__dict__["edges"] = edges  # the union of what every frame has kept
    return joined


def _join_states(parts: Sequence[AtomicBatch], name: str) -> Tensor | None:
    values = [getattr(part, name) for part in parts]
    return None if any(value is None for value in values) else torch.cat(values)


@dataclass(frozen=True, eq=False)
class PotentialData:
    """Training, validation and test frames of a run, and those of earlier data to replay.

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
    replay: PotentialData | None = None  # earlier data

    __repr__ = brief_fields

    @property
    def held_out(self) -> dict[str, AtomicFrames]:
        """Validation and test frames by name, and the validation frames of the earlier data."""
        old = {} if self.replay is None else {"replay validation": self.replay.validation}
        return {"validation": self.validation, **self.split.tests, **old}


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
        units=config.units,
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
    for name in config.outputs:
        if all(name not in frame.info for frame in split.train):
            raise ValueError(
                f"{split.train.name}: no frame has a {name}, and its weight is "
                f"{config.outputs[name]:g}{split.train.found_keys}"
            )
    if config.validation >= (number := len(split.train)):
        raise ValueError(
            f"{config.data}: has {number} training frames, too few to put {config.validation} of "
            "them aside for validation; choose fewer with --validation"
        )
    # independent of the seed of the run: runs are comparable
    order = np.random.default_rng(seed_sequence(0, "validation")).permutation(number).tolist()
    kept, aside = sorted(order[config.validation :]), sorted(order[: config.validation])
    train, validation = split.train.select(kept), split.train.select(aside)
    old = _load_replay(config) if config.replay else None
    data = PotentialData(split, train, validation, old)
    remark = "; ".join(filter(None, (split.remark, _twice(data))))
    return replace(data, split=replace(split, remark=remark))


def _load_replay(config: PotentialRunConfig) -> PotentialData:
    """Load earlier data, read like those of the start; frames without a head are of the last."""
    reading: dict[str, Any] = {
        name: "" for name in ("units", *(f"{label}_key" for label in LABELS))
    }
    if config.start_from:
        first = Checkpoint.load(config.start_from, "potential").config.get("train")
        found = PotentialRunConfig.from_dict(first or {})
        reading = {name: getattr(found, name) for name in reading}
    elif any(getattr(config, name) for name in reading):
        raise ValueError(
            f"{config.replay}: units and keys of replayed frames are those of the checkpoint of "
            "--start-from, and there is none; leave out units and keys, or replay"
        )
    old = load_frames(replace(config, data=config.replay, subset="", replay="", **reading))
    if not config.heads:
        return old

    def named(frames: AtomicFrames) -> AtomicFrames:
        head = {"head": config.heads[-1]}
        found = (replace(frame, info=head | dict(frame.info)) for frame in frames)
        return replace(frames, frames=tuple(found))

    return replace(old, train=named(old.train), validation=named(old.validation))


def _twice(data: PotentialData) -> str:
    """Return the names of sets with frames that also occur in the training set."""
    trained = [data.train] if data.replay is None else [data.train, data.replay.train]
    known, others = torch.cat([frame_digests(frames) for frames in trained]), data.held_out
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
    """Return digests of elements, positions, periodic cells and states, (frames,), int64."""
    found = []
    for frame in frames:
        cell = frame.cell if any(frame.pbc) else None
        states = [state_of(frame.info, name) for name in USUAL_STATE]
        # checkpoints of earlier versions have digests without states
        others = [states] if states != [*USUAL_STATE.values()] else []
        found.append(_digest(frame.numbers, frame.positions, frame.pbc, cell, *others))
    return torch.tensor(found, dtype=torch.int64)


def _digest(*values: Tensor | Sequence[float] | float | None) -> int:
    """Return a digest of numbers in float64; None stands for a missing one."""
    none = torch.empty(0, dtype=torch.float64)
    return digest(
        *(none if value is None else torch.as_tensor(value, dtype=none.dtype) for value in values)
    )


def heads_of(frames: AtomicFrames, heads: Sequence[str], head: str) -> list[str]:
    """Return the head of each frame; raise for one that is not among ``heads``."""
    found = [str(frame.info.get("head", head or heads[0])) for frame in frames]
    for k, name in enumerate(found):
        if name not in heads:
            raise ValueError(
                f"{place_of(frames, k)} has the head {name!r:.80}, expected {', '.join(heads)}"
            )
    return found
