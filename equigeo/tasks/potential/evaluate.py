"""Evaluation of potentials on the test frames of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets import AtomicFrames
from equigeo.datasets.atoms.chemical_symbols import symbol
from equigeo.tasks.potential.data import PotentialData, frame_digests
from equigeo.tasks.potential.errors import FrameErrors
from equigeo.tasks.potential.trained import TrainedPotential

_SHOWN = 2000  # points of a figure


@dataclass(frozen=True)
class PotentialEvaluation:
    """Errors per set of frames; all dictionaries are keyed by the name of the set."""

    sets: dict[str, dict[str, Any]]  # errors with units in their names
    species: dict[str, dict[str, dict[str, float]]]  # force errors in meV/angstrom by symbol
    # pairs (label, prediction): energy in eV per atom minus the mean label, forces in eV/angstrom
    parity: dict[str, dict[str, list[list[float]]]]
    remark: str = ""  # warning for the reader of the figures
    trained_on: int | None = None  # number of training frames; None if not recorded

    __repr__ = brief_fields

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types, without the points of figures."""
        return {
            "sets": self.sets,
            "species": self.species,
            "remark": self.remark,
            "trained_on": self.trained_on,
        }

    @property
    def num_frames(self) -> int:
        """Number of frames of all sets."""
        return sum(errors["frames"] for errors in self.sets.values())


def evaluate_potential(trained: TrainedPotential, data: PotentialData) -> PotentialEvaluation:
    """Compute errors on the validation frames and on every test set.

    Examples
    --------
    >>> from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit
    >>> from equigeo.potentials import MessagePassingPotential, PotentialConfig
    >>> from equigeo.tasks.potential import PotentialRunConfig
    >>> atom = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3).double(), energy=0.5)
    >>> frames = AtomicFrames((atom,))
    >>> model = MessagePassingPotential(PotentialConfig((1,), channels=4)).eval()
    >>> trained = TrainedPotential(model, (), PotentialRunConfig("memory"), "0.2.0")
    >>> data = PotentialData(AtomicSplit("one atom", frames), frames, frames)
    >>> evaluate_potential(trained, data).sets["validation"]["energy MAE (meV)"]
    500.0
    """
    sets = {"validation": data.validation, **data.split.tests}
    return evaluate_frames(trained, sets, data.split.remark)


def evaluate_frames(
    trained: TrainedPotential,
    sets: Mapping[str, AtomicFrames],
    remark: str = "",  # note for the reader of the figures
) -> PotentialEvaluation:
    """Compute errors on sets of frames, for the labels that each has."""
    for frames in sets.values():
        labels = ("energy", "forces", "stress")
        if all(len(frames.lacking(label)) == len(frames) for label in labels):
            raise ValueError(
                f"{frames.name}: no frame has an energy, forces or a stress to compare with"
                f"{frames.found_keys}"
            )
    found = {name: trained.errors(part) for name, part in sets.items()}
    return PotentialEvaluation(
        sets={name: errors.summary() for name, errors in found.items()},
        species={
            name: {symbol(z): row for z, row in errors.by_species().items()}
            for name, errors in found.items()
        },
        parity={name: _parity(errors) for name, errors in found.items()},
        remark=remark,
        trained_on=trained.trained_on(torch.cat([frame_digests(part) for part in sets.values()])),
    )


def _parity(errors: FrameErrors) -> dict[str, list[list[float]]]:
    label = errors.energy_label / errors.counts
    known = label[~label.isnan()]
    middle = known.mean() if len(known) else torch.zeros(())
    return {
        "energy": _pairs(label - middle, errors.energy / errors.counts - middle),
        "forces": _pairs(errors.forces_label.reshape(-1), errors.forces.reshape(-1)),
    }


def _pairs(labels: Tensor, found: Tensor) -> list[list[float]]:
    """Return some evenly spread labelled pairs."""
    pairs = torch.stack([labels.double(), found.double()], dim=1)
    pairs = pairs[~pairs[:, 0].isnan()]
    step = max(1, -(-len(pairs) // _SHOWN))
    return [[round(x, 6) for x in pair] for pair in pairs[::step].tolist()]
