"""Ops of the op table for spherical harmonics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from equigeo.ops import spherical_harmonics
from equigeo.ops.sphere.spherical_harmonics import spherical_harmonics_reference
from equigeo.ops.sphere.spherical_harmonics_backward import (
    spherical_harmonics_backward,
    spherical_harmonics_backward_reference,
)
from equigeo.ops.sphere.spherical_harmonics_double_backward import (
    spherical_harmonics_double_backward,
    spherical_harmonics_double_backward_reference,
)
from equigeo.tensor_products.sphere.harmonics import harmonics_table
from tests.ops.op import Op
from tests.ops.problems import Problem


def _row(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    names: list[str],
    degrees: list[int],
    normalize: bool,
    blas: bool = False,
) -> Op:
    sizes = {"along": 3, "grad": sum(2 * l + 1 for l in degrees), "x": 3}

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        return [problem.randn(name, problem.sources, sizes[name], dtype=dtype) for name in names]

    def with_constants(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *tensors: function(*tensors, degrees, normalize)

    name = reference.__name__.removesuffix("_reference")
    return Op(
        name,
        with_constants(function),
        with_constants(reference),
        features,
        lambda graph: [harmonics_table(max(degrees), "component")],
        label=f"{name} of degrees {degrees}, {'unit' if normalize else 'any'} length",
        blas=blas,
        constants=(degrees, normalize),
    )


def harmonics_rows() -> Iterator[Op]:
    """Rows that fill registers and rows that do not; with gaps between degrees; at any length."""
    values = spherical_harmonics, spherical_harmonics_reference, ["x"]
    first = spherical_harmonics_backward, spherical_harmonics_backward_reference, ["grad", "x"]
    second = (
        spherical_harmonics_double_backward,
        spherical_harmonics_double_backward_reference,
        ["along", "grad", "x"],
    )
    for function, reference, names in (values, first):
        yield _row(function, reference, names, [0, 1], True)
        yield _row(function, reference, names, [0, 1, 2, 3], True)
        yield _row(function, reference, names, [1, 4], False)
        yield _row(function, reference, names, [6], True)
    # As many degrees as are staged in single precision and are not in double.
    yield _row(*values, list(range(15)), True)
    # Each derivative of the last one is taken by PyTorch through einsums, slowly where it traces
    # them.
    yield _row(*second, [0, 1, 2], True, blas=True)
    yield _row(*second, [1, 3], False, blas=True)
