"""Comparison of the energy of a model and its derivatives before and after acceleration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.interop.certificate import Arrange, Check, derivatives, largest_error
from equigeo.interop.compare_module import Results, last_line, plain, strided
from equigeo.testing import tolerance

Energy = Callable[[Tensor, Tensor], Tensor]
Evidence = dict[str, Results | str]  # results by form of inputs, or the error message

# A model is a chain of tens of modules, each within its tolerance, and forces are differences.
CONDITION = 100.0


@dataclass(frozen=True)
class ModelEnergy:
    """A model as an energy function, with a system to evaluate it on."""

    energy: Energy  # of positions (atoms, 3) and index (atoms,): the atom in each row
    positions: Tensor  # (atoms, 3)
    parameters: Sequence[Tensor]  # of the model; differentiated if they require gradients

    def __post_init__(self) -> None:
        positions = self.positions
        if not positions.is_floating_point():
            raise TypeError(f"positions must be floating, got {positions.dtype}")
        if positions.ndim != 2 or positions.shape[1] != 3 or not len(positions):
            raise ValueError(f"positions must be (atoms, 3), got {tuple(positions.shape)}")

    def gather(self) -> Evidence:
        """Evaluate energies, gradients and second gradients in three forms of inputs."""
        x, found = self.positions.detach(), Evidence()
        forms = {"plain": (x, plain), "strided": (x, strided), "one-atom": (x[:1], plain)}
        with torch.inference_mode(False), torch.enable_grad():
            for name, (positions, arrange) in forms.items():
                try:
                    found[name] = self._derivatives(positions, arrange)
                except Exception as error:  # any error of the caller's function
                    found[name] = last_line(error)
        return found

    def compare(
        self,
        before: Evidence,  # from gather
        after: Evidence,
        precision: torch.dtype,  # precision of the tables of both
    ) -> tuple[Check, ...]:
        """Compare the results of a model with earlier ones."""
        coarse = max((precision, self.positions.dtype), key=lambda dtype: torch.finfo(dtype).eps)
        limit = tolerance(coarse, max(64, self.positions.numel()), CONDITION)["rtol"]
        checks: list[Check] = []
        for inputs, want in before.items():
            got = after[inputs]
            if isinstance(want, str):
                checks.append(Check("energy", inputs, None, limit, f"failed before: {want}"))
            elif isinstance(got, str):
                checks.append(Check("energy", inputs, math.inf, limit, f"fails: {got}"))
            else:
                checks += [
                    Check(f"energy, {what}", inputs, largest_error(got[what], values), limit)
                    for what, values in want.items()
                ]
        return tuple(checks)

    def _derivatives(self, x: Tensor, arrange: Arrange) -> Results:
        parameters = [p for p in self.parameters if p.requires_grad and p.is_floating_point()]
        index = torch.arange(len(x), device=x.device)

        def energy(moved: Tensor) -> Tensor:
            return self.energy(moved, index).reshape(1)

        return derivatives(energy, [x], parameters, arrange)
