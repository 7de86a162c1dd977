"""Errors, uncertainties and files of predictions on atomic frames."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields
from equigeo._core.text import printable
from equigeo.datasets import AtomicFrame, AtomicFrames, format_extxyz
from equigeo.datasets.atoms.frames import HEAVIEST, symbol
from equigeo.nn.module import evaluating
from equigeo.potentials import LastLayerUncertainty, fit_references
from equigeo.potentials.batch import has_stress, stress_over_cell
from equigeo.potentials.config import DEGREES
from equigeo.potentials.tuning import Heads, number_of_heads, potential_of
from equigeo.tasks.potential.data import AtomicSource
from equigeo.tasks.task import Evaluation
from equigeo.training.checkpoint import check_weights

_FREE = 10  # frames beyond the number of constants that are fitted to them
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
    energy_uncertainty : Tensor, (frames,), float64, in eV, optional
    forces_uncertainty : Tensor, (atoms,), float64, in eV/angstrom, optional
        Standard deviations.
    dipole, dipole_label : Tensor, (frames, 3), float64, in e angstrom, optional
    polarizability, polarizability_label : Tensor, (frames, 3, 3), float64, in angstrom^3, optional

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
    energy_uncertainty: Tensor | None = None
    forces_uncertainty: Tensor | None = None
    dipole: Tensor | None = None
    dipole_label: Tensor | None = None
    polarizability: Tensor | None = None
    polarizability_label: Tensor | None = None

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
        if fitted.is_unique and len(frames) >= len(fitted.species) + _FREE:
            return dict(zip(fitted.species, fitted.energies, strict=True))
        return dict.fromkeys(fitted.species, (errors / self.counts)[known].mean().item())

    @property
    def energy_spread(self) -> float | None:
        """Root mean square of energy errors without ``energy_offsets``, in ``energy_unit``.

        Of the frames that are left after one for each constant; None for fewer than two.
        """
        offsets, number = self.energy_offsets, len(self.energy_errors)
        free = number - len(set(offsets.values()))
        if free < 1 or not offsets:
            return None
        of_number = self.energy.new_zeros(HEAVIEST + 1)
        of_number[list(offsets)] = self.energy.new_tensor(list(offsets.values()))
        frame = torch.arange(len(self.counts)).repeat_interleave(self.counts)
        constant = self.energy.new_zeros(len(self.counts))
        constant.index_add_(0, frame, of_number[self.numbers])
        rest = replace(self, energy=self.energy - constant / _MILLI)
        return _rms(rest.energy_errors) * (number / free) ** 0.5

    def moment_errors(self, name: str) -> Tensor:
        """Return errors of labeled components of the "dipole" or "polarizability", in 1/1000."""
        found, label = getattr(self, name), getattr(self, f"{name}_label")
        return self.energy[:0] if found is None else _MILLI * (found - label)[~label.isnan()]

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
            ("dipole {} (me A)", self.moment_errors("dipole")),
            ("polarizability {} (1e-3 A^3)", self.moment_errors("polarizability")),
        ):
            if len(errors):
                found[name.format("MAE")] = errors.abs().mean().item()
                found[name.format("RMSE")] = _rms(errors)
            if "energy" in name and (spread := self.energy_spread) is not None:
                found[name.format("spread")] = spread
        return found | self._calibration()

    def _calibration(self) -> dict[str, float]:
        """Return shares of errors within standard deviations, and how these order force errors."""
        if self.energy_uncertainty is None or self.forces_uncertainty is None:
            return {}
        forces = (self.forces - self.forces_label).double()
        pairs = (
            ("energy", self.energy - self.energy_label, self.energy_uncertainty),
            ("force", forces, self.forces_uncertainty[:, None].expand(-1, 3)),
        )
        found = {}
        for name, errors, sigma in pairs:
            known = ~(errors.isnan() | sigma.isnan())
            for count in (1, 2) if bool(known.any()) else ():
                inside = errors[known].abs() <= count * sigma[known]
                found[f"{name} in {count} sd (%)"] = 100 * inside.double().mean().item()
        size = forces.norm(dim=1)
        known = ~(size.isnan() | self.forces_uncertainty.isnan())
        if int(known.sum()) > 1:
            ranks = [
                scipy.stats.rankdata(x[known].numpy()) for x in (size, self.forces_uncertainty)
            ]
            if min(rank.std() for rank in ranks) > 0:
                found["force rank corr."] = float(np.corrcoef(*ranks)[0, 1])
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


def measure_errors(
    model: Any,
    source: AtomicSource,
    *,
    stress: bool = False,
    uncertainty: Uncertainties | None = None,
) -> FrameErrors:
    """Compute the errors of a potential in evaluation mode on all frames, in batches.

    Stresses are NaN unless ``stress``; with ``uncertainty`` of the heads, also their standard
    deviations.

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
    energies, forces, stresses, deviations = [], [], [], []
    moments: dict[str, list[Tensor]] = {name: [] for name in DEGREES}
    device = next(model.parameters()).device
    for samples in source.few_at_a_time():
        potential, atoms = potential_of(model, samples.head), samples.atoms.to(device)
        rate = None if uncertainty is None else uncertainty.heads[samples.head]
        found = potential(atoms, stress=stress, **({} if rate is None else {"features": True}))
        unknown = [torch.full_like(x, torch.nan) for x in (found.energy, found.energies)]
        deviations.append(unknown if rate is None else rate(found, atoms))
        energies.append(found.energy.detach().cpu())
        forces.append(found.forces.detach().cpu())
        nan = torch.full_like(samples.stress, torch.nan)
        own = stress_over_cell(found, atoms) if stress else nan
        stresses.append(own.detach().cpu())
        for name, rows in moments.items():
            if (value := getattr(found, name)) is not None:
                rows.append(value.detach().cpu())
    both: Any = (torch.cat(x).detach().cpu() for x in zip(*deviations, strict=True))
    energy_uncertainty, forces_uncertainty = (None, None) if uncertainty is None else both
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
        energy_uncertainty=energy_uncertainty,
        forces_uncertainty=forces_uncertainty,
        **{name: torch.cat(rows) for name, rows in moments.items() if rows},
        dipole_label=torch.cat([part.dipole for part in source.parts]),
        polarizability_label=torch.cat([part.polarizability for part in source.parts]),
    )


def _rms(errors: Tensor) -> float:
    return errors.square().mean().sqrt().item()


def _mean(errors: Tensor) -> float | None:
    return errors.mean().item() if len(errors) else None


_SHOWN = 2000  # points of a figure


@dataclass(frozen=True, repr=False)
class PotentialEvaluation(Evaluation):
    """Errors per set of frames; all dictionaries are keyed by the name of the set."""

    sets: dict[str, dict[str, Any]]  # errors with units in their names
    species: dict[str, dict[str, dict[str, float]]]  # force errors in meV/angstrom by symbol
    # pairs (label, prediction): energy in eV per atom minus the mean label, forces in eV/angstrom
    parity: dict[str, dict[str, list[list[float]]]]
    remark: str = ""  # warning for the reader of the figures
    trained_on: int | None = None  # number of training frames; None if not recorded

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types, without the points of figures."""
        values = super().to_dict()
        del values["parity"]
        return values

    @property
    def num_frames(self) -> int:
        """Number of frames of all sets."""
        return sum(errors["frames"] for errors in self.sets.values())


def describe_offset(name: str, errors: FrameErrors) -> str:
    """Describe the constant part of energy errors if it is most of them, else return ""."""
    spread, unit = errors.energy_spread, errors.energy_unit
    if (
        spread is None
        or len(errors.energy_errors) <= _FREE
        or 2 * spread > errors.energy_errors.square().mean().sqrt()
    ):
        return ""
    offsets = {symbol(z): f"{x:+.1f}" for z, x in errors.energy_offsets.items()}
    equal = len(set(offsets.values())) == 1
    shown = min(offsets.values()) if equal else ", ".join(map(" ".join, offsets.items()))
    return (
        f"energies of {name} are off by a constant of {shown} meV per atom; without it, their RMSE "
        f"is {spread:.1f} {unit}, the spread"
    )


def parity_pairs(errors: FrameErrors) -> dict[str, list[list[float]]]:
    """Return pairs (label, prediction) of energies and forces for figures."""
    label = errors.energy_label / errors.counts
    known = label[~label.isnan()]
    middle = known.mean() if len(known) else torch.zeros(())
    return {
        "energy": _pairs(label - middle, errors.energy / errors.counts - middle),
        "forces": _pairs(errors.forces_label.reshape(-1), errors.forces.reshape(-1)),
    }


def _pairs(labels: Tensor, found: Tensor) -> list[list[float]]:
    """Return some evenly spread labeled pairs."""
    pairs = torch.stack([labels.double(), found.double()], dim=1)
    pairs = pairs[~pairs[:, 0].isnan()]
    step = max(1, -(-len(pairs) // _SHOWN))
    return [[round(x, 6) for x in pair] for pair in pairs[::step].tolist()]


def potential_table(evaluation: PotentialEvaluation) -> str:
    """Format errors per set of frames, with one unit of energies per column."""
    names = [name for row in evaluation.sets.values() for name in row if name != "atoms"]
    columns = list(dict.fromkeys(names))
    width = max(3, *(len(printable(name)) for name in evaluation.sets))
    lines = [f"{'set':<{width}}  " + "  ".join(columns)]
    for name, row in evaluation.sets.items():
        cells = [_cell(row.get(column), len(column)) for column in columns]
        lines.append(f"{printable(name):<{width}}  " + "  ".join(cells))
    if evaluation.remark:
        lines += ["", f"note: {evaluation.remark}"]
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    if value is None:
        return f"{'-':>{width}}"
    return f"{value:{width}d}" if isinstance(value, int) else f"{value:{width}.2f}"


@dataclass(frozen=True)
class Uncertainties:
    """Uncertainties of the potential of each head; None for one without."""

    heads: tuple[LastLayerUncertainty | None, ...]

    __repr__ = brief_fields

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as tensors, for a checkpoint; names of the first head are plain."""
        found = [(k, each.state_dict()) for k, each in enumerate(self.heads) if each is not None]
        return {f"{_prefix(k)}{name}": x for k, state in found for name, x in state.items()}


def _prefix(head: int) -> str:
    return f"{head}." if head else ""


def fit_uncertainty(
    train: Iterable[AtomicSource],
    validation: Iterable[AtomicSource],
    model: nn.Module,
) -> Uncertainties | None:
    """Fit uncertainties of a trained potential for each head; warn if labels are missing."""
    heads = [_fit_head(train, validation, model, k) for k in range(number_of_heads(model))]
    return Uncertainties(tuple(heads)) if any(heads) else None


def _fit_head(
    train: Iterable[AtomicSource],
    validation: Iterable[AtomicSource],
    model: nn.Module,
    head: int,
) -> LastLayerUncertainty | None:
    learned, others = (
        (each for source in sources for each in source.few_at_a_time() if each.head == head)
        for sources in (train, validation)
    )
    labelled = ((samples.atoms, samples.energy, samples.forces) for samples in others)
    potential = potential_of(model, head)
    try:
        with evaluating(potential):
            return LastLayerUncertainty.fit(potential, (x.atoms for x in learned), labelled)
    except ValueError as error:
        name = f" of the head {model.names[head]}" if isinstance(model, Heads) else ""
        warnings.warn(f"the checkpoint will have no uncertainties{name}: {error}", stacklevel=2)
        return None


def read_uncertainty(state: Mapping[str, Any], model: Any) -> Uncertainties:
    """Build uncertainties of a potential from the untrusted content of a checkpoint, or raise."""
    config, size = model.config, potential_of(model, 0).num_features
    number, zero = len(config.species), torch.zeros(())  # numbers beyond float32 raise
    shapes = {
        "whitening": zero.expand(number, size, size),
        "energy_scale": zero,
        "forces_scale": zero.expand(number),
    }
    there = [f"{_prefix(k)}whitening" in state for k in range(number_of_heads(model))]
    there[0] |= not any(there)  # raises for what is missing
    prefixes = [_prefix(k) if known else None for k, known in enumerate(there)]
    check_weights(
        {f"{p}{n}": x for p in prefixes if p is not None for n, x in shapes.items()}, state
    )
    if any(bool((state[name] < 0).any()) for name in state if name.endswith("_scale")):
        raise ValueError("scales of uncertainties must not be negative")

    def build(prefix: str | None) -> LastLayerUncertainty | None:
        if prefix is None:
            return None
        found = {name: state[f"{prefix}{name}"].double() for name in shapes}
        return LastLayerUncertainty(config.species, **found)

    return Uncertainties(tuple(map(build, prefixes)))


_NAMES = ("energy_uncertainty", "forces_uncertainty")  # in files, too


def predicted_entries(frame: AtomicFrame, found: FrameErrors, k: int) -> dict[str, Any]:
    """Return ``info`` and ``columns`` of frame k with its predictions instead of older ones."""
    moments = {name: rows for name in DEGREES if (rows := getattr(found, name)) is not None}
    info = {name: x for name, x in frame.info.items() if name not in {*_NAMES, *moments}}
    known = {name: rows[k] for name, rows in moments.items() if not bool(rows[k].isnan().any())}
    info |= {name: row.numpy() for name, row in known.items()}
    columns = {name: value for name, value in frame.columns.items() if name not in _NAMES}
    if found.energy_uncertainty is not None and found.forces_uncertainty is not None:
        energy = found.energy_uncertainty[k].item()
        forces = found.forces_uncertainty.split(found.counts.tolist())[k]
        info |= {} if math.isnan(energy) else {_NAMES[0]: energy}
        columns |= {} if bool(forces.isnan().any()) else {_NAMES[1]: forces.numpy()}
    return {"info": info, "columns": columns}


def _uncertainties_of(frame: AtomicFrame) -> dict[str, Any]:
    """Return the uncertainties of a predicted frame as JSON types."""
    forces = frame.columns.get(_NAMES[1])
    return {
        _NAMES[0]: frame.info.get(_NAMES[0]),
        _NAMES[1]: None if forces is None else forces.tolist(),
    }


_UNITS = {
    "energy": "eV", "forces": "eV/A", "stress": "eV/A^3", "dipole": "e A", "polarizability": "A^3",
}  # fmt: skip


def format_predictions(frames: AtomicFrames, path: Path) -> dict[str, bytes]:
    """Write predictions as extended XYZ and as JSON, by the suffix of the file name."""
    there = {"energy", "forces", "stress", *(name for frame in frames for name in frame.info)}
    content = {
        "file": path.name,
        "units": {name: unit for name, unit in _UNITS.items() if name in there},
        "frames": [
            {
                "name": frame.name,
                "formula": frame.formula,
                "energy": frame.energy,
                "forces": None if frame.forces is None else frame.forces.tolist(),
                "stress": None if frame.stress is None else frame.stress.tolist(),
                **_uncertainties_of(frame),
                **{n: np.asarray(frame.info[n]).tolist() for n in DEGREES if n in frame.info},
            }
            for frame in frames
        ],
    }
    return {
        ".predicted.extxyz": format_extxyz(frames).encode(),
        ".predicted.json": (json.dumps(content) + "\n").encode(),
    }
