"""The objective of potentials: energies, forces and stresses at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from equigeo._core.tensors import compile_for_sizes, record_program
from equigeo.graphs import EdgeIndex
from equigeo.potentials import AtomicBatch, MessagePassingPotential
from equigeo.potentials.batch import has_stress, stress_over_cell
from equigeo.potentials.config import DEGREES
from equigeo.potentials.potential import SHORTEST_EDGE
from equigeo.potentials.tuning import potential_of
from equigeo.tasks.potential.data import AtomicSamples, PotentialRunConfig
from equigeo.training.data import LabelledBatch
from equigeo.training.objective import Objective, known_gradients

_MILLI = 1e3  # meV of an eV
_LEAST_DELTA = 1e-9


@dataclass(frozen=True)
class EnergyForcesStress(Objective):
    r"""Weighted mean squared errors of energies per atom, force components and stresses.

    .. math:: w_E\,\overline{((E - E^*)/N)^2} + w_F\,\overline{(F - F^*)^2} +
              w_S\,\overline{(\sigma - \sigma^*)^2}

    Dipoles and polarizabilities with a weight add such a term, per atom like energies. With a
    ``huber_delta`` :math:`\delta`, the square of an error :math:`x` is Huber's
    :math:`\delta\,(2|x| - \delta)` where :math:`|x| > \delta`.
    Means are over the existing labels of a step, of all processes. Weights are of (eV/atom)^2,
    (eV/angstrom)^2 and (eV/angstrom^3)^2. Stresses are over the volume of the cell; for slabs and
    wires, components along Cartesian axes within the periodic lattice vectors count. The measure is
    the mean absolute error of forces in meV/angstrom or, without a weight for them, of energies in
    meV/atom.

    Examples
    --------
    >>> EnergyForcesStress(1.0, 100.0).measure
    'error'
    """

    energy: float
    forces: float
    stress: float = 0.0
    dipole: float = 0.0
    polarizability: float = 0.0
    huber_delta: float = 0.0

    measure: ClassVar[str] = "error"
    form: ClassVar[str] = ".1f"
    evaluated: ClassVar[str] = "validation_error"

    def __post_init__(self) -> None:
        """Validate the range in which float32 has losses."""
        if 0 < self.huber_delta < _LEAST_DELTA:
            raise ValueError(
                f"huber_delta must be 0 or at least {_LEAST_DELTA:g}, got {self.huber_delta:g}"
            )

    @classmethod
    def of(cls, config: PotentialRunConfig) -> EnergyForcesStress:
        """Build from the weights of a configuration."""
        return cls(*config.weights, **config.outputs, huber_delta=config.huber_delta)

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        samples: AtomicSamples = batch.inputs
        model = potential_of(model, samples.head)
        found = model(samples.atoms, forces=self.forces > 0, stress=self.stress > 0)
        frames, energies, forces, stresses, *others = samples.labeled.unbind()
        energy = (found.energy - samples.energy) / samples.counts
        measure = energy, ~samples.energy.isnan(), energies
        terms = [(self.energy, *measure)]
        if self.forces:
            measure = found.forces - samples.forces, ~samples.forces.isnan(), forces
            terms.append((self.forces, *measure))
        if self.stress:
            # a system without a periodic axis has no volume: its stress is NaN
            known = ~samples.stress.isnan() & has_stress(samples.atoms)[:, None, None]
            stress = stress_over_cell(found, samples.atoms)
            terms.append((self.stress, stress - samples.stress, known, stresses))
        for name, number in zip(DEGREES, others, strict=True):
            if weight := getattr(self, name):
                label = getattr(samples, name)
                atoms = samples.counts.view(-1, *[1] * (label.ndim - 1))
                errors = (getattr(found, name) - label) / atoms
                terms.append((weight, errors, ~label.isnan(), number))
        loss = sum(
            weight * _mean(self.square, errors, known, number)
            for weight, errors, known, number in terms
            if weight
        )
        shown = _MILLI * _mean(torch.abs, measure[0].detach(), *measure[1:])
        return frames * torch.as_tensor(loss), frames * shown.double()

    def square(self, errors: Tensor) -> Tensor:
        """Square errors, or return Huber's loss of them."""
        if not self.huber_delta:
            return errors.square()
        return 2 * F.huber_loss(errors, torch.zeros_like(errors), "none", self.huber_delta)


def _mean(
    loss: Callable[[Tensor], Tensor], errors: Tensor, known: Tensor, number: Tensor
) -> Tensor:
    """Average over the labels of a step; zero if there are none."""
    # No sizes that depend on values: the step is compiled, too.
    total = loss(torch.where(known, errors, 0.0)).sum()
    return total / number.clamp(min=1).to(total.dtype)


# `torch.compile` cannot differentiate twice what it compiled. Here the whole step is recorded, from
# energies to the gradients of the loss by the weights, and the compiled program is not
# differentiated any more.

# Tensors of a batch by their shapes, in which names are sizes that differ from batch to batch.
_ATOMIC: Final[Mapping[str, tuple[str | int, ...]]] = {
    "numbers": ("atoms",), "positions": ("atoms", 3), "cell": ("systems", 3, 3),
    "pbc": ("systems", 3), "edge_index": (2, "edges"), "shifts": ("edges", 3),
    "batch": ("atoms",), "ptr": ("systems + 1",), "charge": ("systems",), "spin": ("systems",),
}  # fmt: skip
_ORDERS: Final[Mapping[str, tuple[str | int, ...]]] = {
    "order": ("edges",), "source": ("edges",), "target": ("edges",), "ptr": ("atoms + 1",),
    "back_order": ("edges",), "back_target": ("edges",), "back_ptr": ("atoms + 1",),
    "each": ("edges + 1",),
}  # fmt: skip
_LABELS: Final[Mapping[str, tuple[str | int, ...]]] = {
    "energy": ("systems",), "forces": ("atoms", 3), "stress": ("systems", 3, 3),
    "dipole": ("systems", 3), "polarizability": ("systems", 3, 3), "labeled": (6,),
}  # fmt: skip
_SHAPES: Final = {
    **_ATOMIC, **{f"edges.{name}": shape for name, shape in _ORDERS.items()}, **_LABELS,
    "labels": ("systems",),
}  # fmt: skip
# A program is recorded for sizes that are no channels of a potential, and unequal to each other.
_RECORDED: Final = {
    "systems": 10007, "systems + 1": 10008, "atoms": 20011, "atoms + 1": 20012,
    "edges": 40009, "edges + 1": 40010,
}  # fmt: skip
_FEWEST = 2  # of systems, atoms and edges: programs are for sizes that are neither 0 nor 1


@dataclass(frozen=True)
class CompiledObjective(Objective):
    """Same losses and gradients as an :class:`EnergyForcesStress`, compiled at the first step."""

    objective: EnergyForcesStress
    _programs: dict[Any, _Program] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    measure = EnergyForcesStress.measure
    form = EnergyForcesStress.form
    evaluated = EnergyForcesStress.evaluated

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        model = potential_of(model, batch.inputs.head)
        if not isinstance(model, MessagePassingPotential):
            name = type(model).__name__
            raise TypeError(f"steps of a MessagePassingPotential can be compiled, got {name}")
        samples: AtomicSamples = batch.inputs
        atoms = samples.atoms
        sizes = len(batch.labels), len(atoms.numbers), atoms.edge_index.shape[1]
        if min(sizes) < _FEWEST:
            return self.objective.sums(model, batch)
        form = (
            model,
            id(model.e0),  # buffers of a model that was moved may be others
            # the program holds its parameters, so that no other object gets the number of one
            tuple((name, id(p), p.requires_grad) for name, p in model.named_parameters()),
            model.embedding.weight.dtype,
            atoms.positions.dtype,
            atoms.positions.device,
            tuple(name for name in _ATOMIC if getattr(atoms, name) is None),
            atoms.edges.is_sorted,
            atoms.cutoff,
        )
        # One program per device, precision and set of learned parameters.
        if form not in self._programs:
            # Build tables that are built on first use before the program is recorded.
            self.objective.sums(model, batch)
            self._programs[form] = _Program(self.objective, model, batch)
        model.species_of(atoms.numbers)  # raises for unsupported elements
        found = self._programs[form](batch)
        return self.objective.sums(model, batch) if found is None else found

    def __reduce__(self) -> tuple[Any, ...]:
        """Drop the programs, which belong to one process and model."""
        return CompiledObjective, (self.objective,)


class _Program:
    """Compiled training step of one model for batches of one form."""

    def __init__(
        self,
        objective: EnergyForcesStress,
        model: MessagePassingPotential,
        batch: LabelledBatch,  # example of the form
    ) -> None:
        self.learned = {n: p for n, p in model.named_parameters() if p.requires_grad}
        # References and weights that are not learned change between steps; tables never do.
        others = {
            n: x for n, x in model.state_dict(keep_vars=True).items() if n not in self.learned
        }
        self.state = {**self.learned, **others}
        self.reached: list[str] = []  # by the gradient
        atoms = batch.inputs.atoms
        tensors = _tensors(batch)

        def step(*given: Tensor) -> tuple[Tensor, ...]:
            values = dict(zip(self.state, given, strict=False))
            leaves = {n: values[n].detach().requires_grad_() for n in self.learned}
            moved = _batch(dict(zip(tensors, given[len(values) :], strict=True)), atoms)

            def call(*arguments: Any, **options: Any) -> Any:
                return functional_call(model, {**values, **leaves}, arguments, options)

            loss, measure = objective.sums(cast(nn.Module, call), moved)
            slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            named = dict(zip(leaves, slopes, strict=True))
            self.reached = [name for name, slope in named.items() if slope is not None]
            vectors = moved.inputs.atoms.vectors()
            apart = (vectors.square().sum(dim=1) > SHORTEST_EDGE**2).all()
            return apart, loss.detach(), measure, *(s for s in slopes if s is not None)

        example = [
            x.new_zeros([_RECORDED[n] if isinstance(n, str) else n for n in _SHAPES[name]])
            for name, x in tensors.items()
        ]
        recorded = record_program(step, (*(x.detach() for x in self.state.values()), *example))
        varying = [
            [axis for axis, n in enumerate(_SHAPES[name]) if isinstance(n, str)] for name in tensors
        ]
        self.call = compile_for_sizes(recorded, [*([] for _ in self.state), *varying])

    def __call__(self, batch: LabelledBatch) -> tuple[Tensor, Tensor] | None:
        """Return loss and measure, or None if atoms coincide."""
        with torch.no_grad():
            given = (*self.state.values(), *_tensors(batch).values())
            apart, loss, measure, *slopes = self.call(*given)
        if not bool(apart):
            return None
        by = [self.learned[name] for name in self.reached]
        return known_gradients(loss, by, slopes), measure


def _tensors(batch: LabelledBatch) -> dict[str, Tensor]:
    """Return all tensors of a batch by the names in ``_SHAPES``."""
    samples: AtomicSamples = batch.inputs
    atoms = samples.atoms
    values = {name: getattr(atoms, name) for name in _ATOMIC}
    values |= {f"edges.{name}": getattr(atoms.edges, name) for name in _ORDERS}
    values |= {name: getattr(samples, name) for name in _LABELS}
    values["labels"] = batch.labels
    return {name: x.detach().contiguous() for name, x in values.items() if x is not None}


def _batch(tensors: dict[str, Tensor], like: AtomicBatch) -> LabelledBatch:
    """Build a batch from such tensors and the other fields of an existing one."""
    atomic: dict[str, Any] = {name: tensors.get(name) for name in _ATOMIC}
    atoms = AtomicBatch(**atomic, cutoff=like.cutoff)
    atoms.__dict__["edges"] = EdgeIndex(
        atoms.edge_index, is_sorted=like.edges.is_sorted,
        **{name: tensors[f"edges.{name}"] for name in _ORDERS},
    )  # fmt: skip
    samples = AtomicSamples(atoms, *(tensors[name] for name in _LABELS))
    return LabelledBatch(samples, tensors["labels"], total=0)
