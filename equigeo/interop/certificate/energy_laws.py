"""The laws that the energy of a model obeys, and a replacement must not break.

Forces are minus the gradient of the energy, no work is done on a closed loop, and two copies of a
system that are far apart have twice its energy. A model that breaks a law by itself, as one that
divides by the number of its atoms, is not blamed on its replacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from equigeo.interop.accelerated.arguments import random
from equigeo.interop.certificate.certificate import Check
from equigeo.interop.certificate.compare_module import Results, last_line, strided
from equigeo.interop.certificate.derivatives import Arrange, derivatives, largest_error
from equigeo.testing import tolerance

Energy = Callable[[Tensor, Tensor], Tensor]
Found = TypeVar("Found")

# A model is a chain of tens of modules, each within its tolerance, and forces are differences.
CONDITION = 100.0
DIRECTIONS = 4  # in which finite differences are taken
POINTS = 16  # of a closed loop
RADIUS = 0.02  # by which atoms move on a loop, in shortest distances: the energy is smooth there
GRID = 2.0**-10  # in shortest distances: positions on it keep their differences when moved far
FAR = 128.0  # in shortest distances: several times the cutoff of any potential


class Law(NamedTuple):
    """Violation of a law, and the tolerance for rounding and discretisation."""

    error: float
    tolerance: float


class Evidence(NamedTuple):
    """Results of a model by form of inputs, and laws by name, or the error messages."""

    results: dict[str, Results | str]
    laws: dict[str, Law | str]


@dataclass(frozen=True)
class EnergyLaws:
    """A model as an energy function, with a system to evaluate it on."""

    energy: Energy  # of positions (atoms, 3) and index (atoms,): the atom in each row
    positions: Tensor  # (atoms, 3), at least two atoms at different positions
    parameters: Sequence[Tensor]  # of the model; differentiated if they require gradients

    def __post_init__(self) -> None:
        """Raise for positions that do not support the laws."""
        positions = self.positions
        if not positions.is_floating_point():
            raise TypeError(f"positions must be floating, got {positions.dtype}")
        if positions.ndim != 2 or positions.shape[1] != 3 or len(positions) < 2:
            raise ValueError(
                f"positions must be (atoms, 3) of two or more atoms, got {tuple(positions.shape)}"
            )
        if not self._shortest > 0:
            raise ValueError("positions must differ from atom to atom, got two at one place")

    def gather(self) -> Evidence:
        """Evaluate energies and their gradients in three forms of inputs, and the laws."""
        x, index = self.positions.detach(), self._index
        tries = {
            "plain": lambda: self._derivatives(x, index, lambda value: value),
            "strided": lambda: self._derivatives(x, index, strided),
            "one-atom": lambda: self._derivatives(x[:1], index[:1], lambda value: value),
        }
        laws = {
            "forces against finite differences": self._finite_differences,
            "curl of the forces": self._circulation,
            "extensivity": self._extensivity,
        }
        with torch.inference_mode(False), torch.enable_grad():
            return Evidence(
                {name: _attempt(call) for name, call in tries.items()},
                {name: _attempt(call) for name, call in laws.items()},
            )

    def compare(
        self,
        before: Evidence,  # from gather
        after: Evidence,
        precision: torch.dtype,  # precision of the tables of both
    ) -> tuple[Check, ...]:
        """Compare the results of a model with earlier ones."""
        coarse = max((precision, self.positions.dtype), key=lambda dtype: torch.finfo(dtype).eps)
        limit = self._limit(coarse)
        checks: list[Check] = []
        for inputs, want in before.results.items():
            got = after.results[inputs]
            if isinstance(want, str):
                checks.append(Check("energy", inputs, None, limit, f"failed before: {want}"))
            elif isinstance(got, str):
                checks.append(Check("energy", inputs, math.inf, limit, f"fails: {got}"))
            else:
                checks += [
                    Check(f"energy, {what}", inputs, largest_error(got[what], values), limit)
                    for what, values in want.items()
                ]
        pairs = zip(before.laws.items(), after.laws.values(), strict=True)
        return (*checks, *(_judge(name, known, found) for (name, known), found in pairs))

    @property
    def _index(self) -> Tensor:
        return torch.arange(len(self.positions), device=self.positions.device)

    @property
    def _shortest(self) -> float:
        """Return the shortest distance between atoms."""
        return float(torch.pdist(self.positions.detach().double().cpu()).min())

    def _limit(self, dtype: torch.dtype) -> float:
        return tolerance(dtype, max(64, self.positions.numel()), CONDITION)["rtol"]

    def _derivatives(self, x: Tensor, index: Tensor, arrange: Arrange) -> Results:
        parameters = [p for p in self.parameters if p.requires_grad and p.is_floating_point()]

        def energy(moved: Tensor) -> Tensor:
            return self.energy(moved, index).reshape(1)

        return derivatives(energy, [x], parameters, arrange)

    def _forces(self, positions: Tensor, index: Tensor) -> tuple[float, Tensor]:
        x = positions.detach().clone().requires_grad_()
        energy = self.energy(x, index).sum()
        if not energy.requires_grad:
            return float(energy.detach()), torch.zeros_like(x)
        (gradient,) = torch.autograd.grad(energy, x, allow_unused=True, materialize_grads=True)
        return float(energy.detach()), -gradient.detach()

    def _finite_differences(self) -> Law:
        """Return central differences along random directions, extrapolated from two step sizes."""
        x, index = self.positions.detach(), self._index
        eps = torch.finfo(x.dtype).eps
        # Errors of truncation, h^4, and of rounding, eps / h, are balanced.
        step = self._shortest * eps**0.2
        energy, forces = self._forces(x, index)
        scale = float(forces.norm()) or 1.0
        rounding = CONDITION * eps * max(abs(energy), len(x) * abs(self._energy(x[:1]))) / step
        worst = Law(0.0, rounding / scale)
        for direction in _directions(x, DIRECTIONS, seed=3):
            fine, coarse = (self._slope(x, direction, h) for h in (step, 2 * step))
            error = abs((4 * fine - coarse) / 3 + float((forces * direction).sum()))
            law = Law(error / scale, (abs(fine - coarse) / 3 + rounding) / scale)
            worst = max(worst, law, key=lambda found: found.error - found.tolerance)
        return worst

    def _slope(self, x: Tensor, direction: Tensor, step: float) -> float:
        ahead, behind = (self._energy(x + sign * step * direction) for sign in (1, -1))
        return (ahead - behind) / (2 * step)

    def _energy(self, x: Tensor) -> float:
        # Not under no_grad: models compute their forces in the same call.
        return float(self.energy(x, self._index[: len(x)]).detach().sum())

    def _circulation(self) -> Law:
        """Return the work on a circle in a random plane, relative to the absolute work."""
        x, index = self.positions.detach(), self._index
        u, v = _directions(x, 2, seed=4)
        v = v - (u * v).sum() * u
        v = v / v.norm()
        radius = RADIUS * self._shortest * math.sqrt(len(x))
        work = []
        for k in range(POINTS):
            c, s = math.cos(2 * math.pi * k / POINTS), math.sin(2 * math.pi * k / POINTS)
            _, forces = self._forces(x + radius * (c * u + s * v), index)
            work.append(float((forces * (c * v - s * u)).double().sum()))
        scale = sum(map(abs, work)) or 1.0
        # Equally spaced points are exact to all orders on a circle: half of them show the rest.
        rest = abs(sum(work) - 2 * sum(work[::2]))
        return Law(abs(sum(work)) / scale, self._limit(x.dtype) + rest / scale)

    def _extensivity(self) -> Law:
        """Compare energy and forces of two distant copies with those of one system."""
        unit = 2.0 ** math.floor(math.log2(self._shortest))
        grid, index = GRID * unit, self._index
        x = (self.positions.detach() / grid).round() * grid
        span = float((x.amax(0) - x.amin(0)).max())
        shift = x.new_tensor([2.0 ** math.ceil(math.log2(4 * span + FAR * unit)), 0.0, 0.0])
        energy, forces = self._forces(x, index)
        both, far = self._forces(torch.cat([x, x + shift]), index.repeat(2))
        scale = max(abs(both), 2 * abs(energy), 2 * len(x) * abs(self._energy(x[:1]))) or 1.0
        moved = largest_error([far], [torch.cat([forces, forces])])
        return Law(max(abs(both - 2 * energy) / scale, moved), self._limit(x.dtype))


def _judge(name: str, known: Law | str, found: Law | str) -> Check:
    """Compare a law with the violation by the original model."""
    if isinstance(known, str):
        return Check(name, "plain", None, 0.0, f"failed before: {known}")
    if isinstance(found, str):
        return Check(name, "plain", math.inf, known.tolerance, f"fails: {found}")
    if not known.error <= known.tolerance:
        note = f"the model of before breaks it as well, by {known.error:.1e}"
        return Check(name, "plain", None, known.tolerance, note)
    return Check(name, "plain", found.error, found.tolerance)


def _attempt(call: Callable[[], Found]) -> Found | str:
    try:
        return call()
    except Exception as error:  # of the caller's function, whatever it raises
        return last_line(error)


def _directions(x: Tensor, count: int, seed: int) -> list[Tensor]:
    drawn = random(count, *x.shape, like=x, seed=seed)
    return [direction / direction.norm() for direction in drawn]
