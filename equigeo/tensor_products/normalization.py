"""Factors of paths, by which inputs of unit variance give outputs of unit variance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equigeo.reps import Irreps
from equigeo.tensor_products.instructions import (
    CONNECTIONS,
    Instruction,
    Operands,
    resolve,
    terms_of,
)

IRREP_NORMALIZATIONS = ("component", "norm", "none")
PATH_NORMALIZATIONS = ("element", "path", "none")


@dataclass(frozen=True)
class Normalization:
    """Variances of the terms of each operand and the two normalization conventions of e3nn."""

    variances: tuple[tuple[float, ...], ...]
    irrep: str
    path: str

    @classmethod
    def read(
        cls,
        operands: Operands,
        irrep: str | None,
        path: str | None,
        variances: Sequence[Any],
    ) -> Normalization:
        """Read the arguments of a product; None selects the default of e3nn."""
        irrep, path = irrep or "component", path or "element"
        check_choice("irrep_normalization", irrep, IRREP_NORMALIZATIONS)
        check_choice("path_normalization", path, PATH_NORMALIZATIONS)
        names = ("in1_var", "in2_var", "out_var")
        read = [_read_variances(*each) for each in zip(names, variances, operands, strict=True)]
        return cls(tuple(read), irrep, path)

    def apply(self, instructions: list[Instruction], operands: Operands) -> list[Instruction]:
        """Replace path weights by normalization factors."""
        # e3nn: path_weight is the share of variance; amplitudes are its roots.
        fan_in = [self._fan_in(instruction, operands) for instruction in instructions]
        slots: dict[int, list[float]] = {}
        for path, variance in zip(instructions, fan_in, strict=True):
            slots.setdefault(path.i_out, []).append(variance)
        normalized = []
        for path, variance in zip(instructions, fan_in, strict=True):
            slot = slots[path.i_out]
            # Unit variance of a term that several paths reach: each is divided by the variance of
            # all of them (element), or by its own times their number (path).
            total = {"element": sum(slot), "path": variance * len(slot), "none": 1.0}[self.path]
            scale = path.path_weight * self.variances[2][path.i_out] * self._scale(path, operands)
            # Where all variance is zero there is nothing to divide by.
            factor = math.sqrt(scale / total if total > 0 else scale)
            normalized.append(replace(path, path_weight=factor))
        return normalized

    def _fan_in(self, path: Instruction, operands: Operands) -> float:
        """Return the variance that a path sums up before any factor."""
        u, v, w = (mul for mul, _ in terms_of(path, operands))
        # A sum of n independent products of unit variance has variance n.
        elements = CONNECTIONS[path.connection].num_elements(u, v, w)
        return self.variances[0][path.i_in1] * self.variances[1][path.i_in2] * elements

    def _scale(self, path: Instruction, operands: Operands) -> int:
        """Return the inverse variance of a coupling of inputs of unit variance, or unit norm."""
        # The coupling tensor has unit norm: its square sums to 1 over i, j and k. With components
        # of variance 1 the output has 1 / dim3 in each; with inputs of norm 1 it is 1 / (dim1
        # dim2).
        dim1, dim2, dim3 = (2 * l + 1 for _, (l, _) in terms_of(path, operands))
        return {"component": dim3, "norm": dim1 * dim2, "none": 1}[self.irrep]


def normalize(
    instructions: Iterable[Any],
    operands: Operands,
    irrep_normalization: str | None = None,
    path_normalization: str | None = None,
    variances: Sequence[Any] = (None, None, None),  # per term of each operand, ones by default
) -> list[Instruction]:
    """Validate instructions and replace their path weights by normalization factors."""
    conventions = Normalization.read(operands, irrep_normalization, path_normalization, variances)
    return conventions.apply(resolve(instructions, operands), operands)


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise if a value is not one of the valid choices."""
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, got {value!r}")


def _read_variances(name: str, given: Any, irreps: Irreps) -> tuple[float, ...]:
    if given is None:
        return (1.0,) * len(irreps.terms)
    variances = tuple(float(variance) for variance in given)
    if len(variances) != len(irreps.terms) or not all(0 <= v < math.inf for v in variances):
        raise ValueError(
            f"{name} must hold {len(irreps.terms)} finite numbers >= 0, one per term of {irreps}, "
            f"got {list(variances)}"
        )
    return variances
