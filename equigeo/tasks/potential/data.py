"""Configuration, data source and errors of runs on atomic frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import torch
from torch import Tensor

from equigeo._core.brief import brief_fields
from equigeo._core.config import Range, ranges_of, within
from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit, load_atomic_split
from equigeo.datasets.atoms.extxyz import Units
from equigeo.datasets.atoms.frames import HEAVIEST, place_of, symbol
from equigeo.graphs import EdgeIndex
from equigeo.potentials import AtomicBatch, PotentialConfig, fit_references
from equigeo.potentials.batch import has_stress, stress_over_cell
from equigeo.potentials.config import NodeName, ProductName
from equigeo.tasks.common.mesh_data import chunks
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledSource, digest
from equigeo.training.process import seed_sequence

_LONGEST_KEY: Final = 255  # characters
_MANY: Final = 100_000  # epochs, of a run that ends by the clock
_SIZES: Final = ("cutoff", "channels", "lmax_edge", "lmax_hidden", "layers", "correlation")


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
    energy_key, forces_key, stress_key : str
        Names of the labels in extended XYZ. Default: the usual names, see
        :func:`equigeo.datasets.read_extxyz`.
    units : str
        Of extended XYZ, by default eV and angstrom, see :func:`equigeo.datasets.read_extxyz`.
    compile : bool
        Compile the training step, which takes one to two minutes and makes steps of small molecules
        nearly 2x faster. Results differ by rounding.
    product, node, correlation, cutoff, channels, layers, lmax_edge, lmax_hidden, zbl
        See :class:`equigeo.potentials.PotentialConfig`.

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

    recipes: ClassVar[Mapping[str, Recipe]] = {
        name: preset.recipe for name, preset in POTENTIAL_PRESETS.items()
    }
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "jitter", "update_bn",
    )  # fmt: skip
    samples: ClassVar[str] = "frames of atoms"
    ranges: ClassVar[Mapping[str, Range]] = {
        name: ranges_of(PotentialConfig)[name] for name in _SIZES
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.energy_weight or self.forces_weight or self.stress_weight):
            raise ValueError("one of the weights of energies, forces and stresses must be positive")
        for name in ("energy_key", "forces_key", "stress_key", "units"):
            if len(getattr(self, name)) > _LONGEST_KEY:
                raise ValueError(f"{name} must have at most {_LONGEST_KEY} characters")
        if self.units:
            Units.parse(self.units)

    @classmethod
    def of_preset(cls, data: str, preset: str = "default") -> PotentialRunConfig:
        base = super().of_preset(data, preset)
        return cls(base.data, base.recipe, base.preset, **POTENTIAL_PRESETS[preset].settings)

    def model(self, species: tuple[int, ...]) -> PotentialConfig:
        """Return the configuration of a potential for some elements."""
        given = {name: getattr(self, name) for name in (*_SIZES, "product", "node", "zbl")}
        return PotentialConfig(species=species, **given)


_EDGES = 20_000  # of a batch that is evaluated
_ALIGNED = 1e-6  # of the square of a Cartesian axis, which may lie out of periodic vectors


@dataclass(frozen=True, eq=False)
class AtomicSamples:
    """Atoms of several frames with their labels; missing labels are NaN."""

    atoms: AtomicBatch
    energy: Tensor  # (frames,) float64, total energy in eV
    forces: Tensor  # (atoms, 3) in eV/angstrom
    stress: Tensor  # (frames, 3, 3) float64, in eV/angstrom^3
    # (4,) float64: frames, labels of energies, of force components and of stress components in the
    # step over all processes
    labeled: Tensor

    __repr__ = brief_fields

    def to(self, device: torch.device) -> AtomicSamples:
        """Move to a device."""
        moved = (x.to(device) for x in (self.energy, self.forces, self.stress, self.labeled))
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

    smallest: ClassVar[int] = 1  # nothing is normalized over a batch

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
        return join([self.parts[k] for k in chosen.tolist()])

    def of_step(self, batch: Any, chosen: Sequence[int]) -> Any:
        labeled = torch.stack([self.parts[k].labeled for k in chosen]).sum(0)
        return replace(batch, inputs=replace(batch.inputs, labeled=labeled))

    def digests(self) -> Tensor:
        labels = [_digest(frame.energy, frame.forces, frame.stress) for frame in self.frames]
        return torch.stack([frame_digests(self.frames), torch.tensor(labels)], dim=1)

    def few_at_a_time(self) -> Iterator[AtomicSamples]:
        """Iterate over all frames in order, in batches of a moderate number of edges."""
        sizes = (part.atoms.edge_index.shape[1] for part in self.parts)
        for chosen in chunks(sizes, _EDGES):
            yield join([self.parts[k] for k in chosen])

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
        atoms = AtomicBatch.from_systems([system], cutoff, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place_of(frames, number)}: {error}") from error
    nan = torch.tensor(torch.nan, dtype=torch.float64)
    forces = nan.expand(len(frame), 3) if frame.forces is None else frame.forces
    stress = nan.expand(3, 3) if frame.stress is None else _learned_stress(frame)
    energy = nan if frame.energy is None else torch.tensor(frame.energy, dtype=torch.float64)
    dtype = atoms.positions.dtype
    known = ~stress.isnan() & has_stress(atoms)
    counts = 1, *(int(x.sum()) for x in (~energy.isnan(), ~forces.isnan(), known))
    labeled = torch.tensor(counts, dtype=torch.float64)
    return AtomicSamples(atoms, energy[None], forces.to(dtype), stress[None], labeled)


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
        torch.stack([part.labeled for part in parts]).sum(0),
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
    )
    joined.__dict__["edges"] = edges  # the union of what every frame has kept
    return joined


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
        unknown = " ".join(map(symbol, sorted(set(frame.numbers.tolist()) - set(species))))
        if unknown:
            raise ValueError(
                f"{place_of(frames, k)} has {unknown}, and the potential knows {names} alone"
            )


_MILLI = 1e3  # meV of an eV


@dataclass(frozen=True, eq=False)
class FrameErrors:
    """Predictions and labels; missing labels are NaN.

    A prediction of NaN for an existing label is an error of NaN.

    Parameters
    ----------
    energy, energy_label : Tensor, (frames,), float64, in eV
    forces, forces_label : Tensor, (atoms, 3), in eV/angstrom
    stress, stress_label : Tensor, (frames, 3, 3), float64, in eV/angstrom^3
    counts : Tensor, (frames,), int64, atoms per frame
    numbers : Tensor, (atoms,), int64, atomic numbers
    periodic : bool, whether energy errors are per atom
    has_stress : Tensor, (frames,), bool, optional
        Frames with a predicted stress. Default: those where the prediction is not NaN throughout.

    Examples
    --------
    >>> energies, none = torch.tensor([1.0, 2.0]), torch.full((2, 3, 3), torch.nan)
    >>> forces, numbers = torch.zeros(2, 3), torch.tensor([1, 1])
    >>> errors = FrameErrors(
    ...     energies, energies + 0.25, forces, forces, none, none, torch.tensor([1, 1]), numbers
    ... )
    >>> errors.energy_mae, errors.energy_unit
    (250.0, 'meV')
    """

    energy: Tensor
    energy_label: Tensor
    forces: Tensor
    forces_label: Tensor
    stress: Tensor
    stress_label: Tensor
    counts: Tensor
    numbers: Tensor
    periodic: bool = field(default=False)
    has_stress: Tensor | None = None

    __repr__ = brief_fields

    @property
    def energy_unit(self) -> str:
        """Unit of energy errors: per molecule, or per atom of a crystal."""
        return "meV/atom" if self.periodic else "meV"

    @property
    def energy_errors(self) -> Tensor:
        """Errors of labeled energies, in ``energy_unit``."""
        errors = _MILLI * (self.energy - self.energy_label)
        return (errors / self.counts if self.periodic else errors)[~self.energy_label.isnan()]

    @property
    def force_errors(self) -> Tensor:
        """Errors of labeled force components, in meV/angstrom."""
        errors = _MILLI * (self.forces - self.forces_label).double()
        return errors[~self.forces_label.isnan()]

    @property
    def stress_errors(self) -> Tensor:
        """Errors of labeled stress components, in meV/angstrom^3."""
        has_stress = self.has_stress
        if has_stress is None:
            has_stress = ~self.stress.isnan().all(dim=(1, 2))
        known = ~self.stress_label.isnan() & has_stress[:, None, None]
        return _MILLI * (self.stress - self.stress_label)[known]

    @property
    def energy_offsets(self) -> dict[int, float]:
        """Constant part of energy errors, in meV per atom, by atomic number.

        Labels of another method differ by a constant per element. Least squares over labeled
        frames; equal for all elements if the frames do not determine them.
        """
        errors = _MILLI * (self.energy - self.energy_label)
        known = ~self.energy_label.isnan()
        if not bool(known.any()) or not bool(errors[known].isfinite().all()):
            return {}
        frames = self.numbers.split(self.counts.tolist())
        frames = [frame for frame, labeled in zip(frames, known.tolist(), strict=True) if labeled]
        fitted = fit_references(frames, errors[known].numpy())
        if fitted.is_unique and len(frames) > len(fitted.species):
            return dict(zip(fitted.species, fitted.energies, strict=True))
        return dict.fromkeys(fitted.species, (errors / self.counts)[known].mean().item())

    @property
    def energy_spread(self) -> float | None:
        """Root mean square of energy errors without ``energy_offsets``, in ``energy_unit``."""
        offsets = self.energy_offsets
        if len(self.energy_errors) < 2 or not offsets:
            return None
        of_number = self.energy.new_zeros(HEAVIEST + 1)
        of_number[list(offsets)] = self.energy.new_tensor(list(offsets.values()))
        frame = torch.arange(len(self.counts)).repeat_interleave(self.counts)
        constant = self.energy.new_zeros(len(self.counts))
        constant.index_add_(0, frame, of_number[self.numbers])
        return _rms(replace(self, energy=self.energy - constant / _MILLI).energy_errors)

    @property
    def force_mae(self) -> float | None:
        """Mean absolute error of force components, in meV/angstrom."""
        return _mean(self.force_errors.abs())

    @property
    def energy_mae(self) -> float | None:
        """Mean absolute error of energies, in ``energy_unit``."""
        return _mean(self.energy_errors.abs())

    def summary(self) -> dict[str, Any]:
        """Return all errors with units in their names, as JSON types.

        The spread of energies is their RMSE without a constant per element.
        """
        unit = self.energy_unit
        found: dict[str, Any] = {"frames": len(self.energy), "atoms": len(self.numbers)}
        for name, errors in (
            (f"energy {{}} ({unit})", self.energy_errors),
            ("force {} (meV/A)", self.force_errors),
            ("stress {} (meV/A^3)", self.stress_errors),
        ):
            if len(errors):
                found[name.format("MAE")] = errors.abs().mean().item()
                found[name.format("RMSE")] = _rms(errors)
            if "energy" in name and self.energy_spread is not None:
                found[name.format("spread")] = self.energy_spread
        return found

    def by_species(self) -> dict[int, dict[str, float]]:
        """Return force errors in meV/angstrom by atomic number, for labeled atoms."""
        errors = _MILLI * (self.forces - self.forces_label).double()
        there = ~self.forces_label.isnan().any(dim=1)
        found = {}
        for z in self.numbers[there].unique().tolist():
            own = errors[there & (self.numbers == z)]
            found[z] = {
                "atoms": float(len(own)),
                "MAE": own.abs().mean().item(),
                "RMSE": _rms(own),
            }
        return found


def measure_errors(model: Any, source: AtomicSource, *, stress: bool = False) -> FrameErrors:
    """Compute the errors of a potential in evaluation mode on all frames, in batches.

    Stresses are NaN unless ``stress``.

    Examples
    --------
    >>> from equigeo.datasets import AtomicFrame, AtomicFrames
    >>> from equigeo.potentials import MessagePassingPotential, PotentialConfig
    >>> atom = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3).double(), energy=-0.25)
    >>> model = MessagePassingPotential(PotentialConfig((1,), channels=4)).eval()
    >>> model.set_references([-0.5])
    >>> measure_errors(model, AtomicSource.of_frames(AtomicFrames((atom,)), 5.0)).summary()
    {'frames': 1, 'atoms': 1, 'energy MAE (meV)': 250.0, 'energy RMSE (meV)': 250.0}
    """
    energies, forces, stresses = [], [], []
    device = next(model.parameters()).device
    for samples in source.few_at_a_time():
        found = model(samples.atoms.to(device), stress=stress)
        energies.append(found.energy.detach().cpu())
        forces.append(found.forces.detach().cpu())
        nan = torch.full_like(samples.stress, torch.nan)
        own = stress_over_cell(found, samples.atoms.to(device)) if stress else nan
        stresses.append(own.detach().cpu())
    return FrameErrors(
        energy=torch.cat(energies),
        energy_label=torch.cat([part.energy for part in source.parts]),
        forces=torch.cat(forces),
        forces_label=torch.cat([part.forces for part in source.parts]),
        stress=torch.cat(stresses),
        stress_label=torch.cat([part.stress for part in source.parts]),
        counts=torch.cat([part.counts for part in source.parts]),
        numbers=torch.cat([part.atoms.numbers for part in source.parts]),
        periodic=any(bool(part.atoms.pbc.any()) for part in source.parts),
        has_stress=stress & torch.cat([has_stress(part.atoms) for part in source.parts]),
    )


def _rms(errors: Tensor) -> float:
    return errors.square().mean().sqrt().item()


def _mean(errors: Tensor) -> float | None:
    return errors.mean().item() if len(errors) else None
