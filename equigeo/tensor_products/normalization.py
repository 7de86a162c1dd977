"""Factors of paths, by which inputs of unit variance give outputs of unit variance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from equigeo.reps import Irreps
from equigeo.tensor_products.instructions import (
    CONNECTIONS,
    Instruction,
    Operands,
    resolve,
    sizes_of,
    terms_of,
)

IRREP_NORMALIZATIONS = ("component", "norm", "none")
PATH_NORMALIZATIONS = ("element", "path", "none")


def normalize(
    instructions: Iterable[Any],
    operands: Operands,
    irrep_normalization: str | None = None,  # None selects the default of e3nn
    path_normalization: str | None = None,
    variances: Sequence[Any] = (None, None, None),  # per term of each operand, ones by default
) -> list[Instruction]:
    """Validate instructions and replace their path weights by normalization factors."""
    irrep, path = irrep_normalization or "component", path_normalization or "element"
    check_choice("irrep_normalization", irrep, IRREP_NORMALIZATIONS)
    check_choice("path_normalization", path, PATH_NORMALIZATIONS)
    names = ("in1_var", "in2_var", "out_var")
    var1, var2, var3 = map(_read_variances, names, variances, operands)
    resolved = resolve(instructions, operands)
    # e3nn: path_weight is the share of variance; amplitudes are its roots.
    summed = []  # the variance that each path sums up before any factor
    slots: dict[int, list[float]] = {}
    for each in resolved:
        u, v, w = (mul for mul, _ in terms_of(each, operands))
        # A sum of n independent products of unit variance has variance n.
        elements = math.prod(sizes_of(CONNECTIONS[each.connection].summed, u, v, w))
        summed.append(var1[each.i_in1] * var2[each.i_in2] * elements)
        slots.setdefault(each.i_out, []).append(summed[-1])
    normalized = []
    for each, variance in zip(resolved, summed, strict=True):
        slot = slots[each.i_out]
        # Unit variance of a term that several paths reach: each is divided by the variance of all
        # of them (element), or by its variance times their number (path).
        total = {"element": sum(slot), "path": variance * len(slot), "none": 1.0}[path]
        # The coupling tensor has unit norm: its square sums to 1 over i, j and k. With components
        # of variance 1 the output has 1 / dim3 in each; with inputs of norm 1 it is 1 / (dim1
        # dim2).
        dim1, dim2, dim3 = (2 * l + 1 for _, (l, _) in terms_of(each, operands))
        inverse = {"component": dim3, "norm": dim1 * dim2, "none": 1}[irrep]
        scale = each.path_weight * var3[each.i_out] * inverse
        # Where all variance is zero there is nothing to divide by.
        factor = math.sqrt(scale / total if total > 0 else scale)
        normalized.append(replace(each, path_weight=factor))
    return normalized


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
