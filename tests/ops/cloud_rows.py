"""Ops of the op table for clouds of points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import axis_flags, principal_axes, symmetric_eigen
from equigeo.ops.clouds.axis_flags import axis_flags_reference
from equigeo.ops.clouds.principal_axes_backward import (
    principal_axes_backward,
    principal_axes_backward_reference,
)
from equigeo.ops.clouds.principal_axes_reference import principal_axes_reference
from equigeo.ops.clouds.symmetric_eigen import symmetric_eigen_reference
from tests.ops.op import Op
from tests.ops.problems import Problem

POINTS = 8  # for each source
NULL_TOL, SMOOTHING = 1e-6, 1e-12
FAR = 2.0**15
# Sums are over points, but what amplifies rounding is the gap of the spectra below.
TERMS = 20_000


def _offsets(points: int, clouds: int) -> Tensor:
    return torch.linspace(0, points, clouds + 1, dtype=torch.float64).round().long()


def _count(sources: int, targets: int) -> int:
    return POINTS * sources if targets else 0


def _rest(graph: EdgeIndex) -> list[Tensor]:
    points = _count(graph.num_sources, graph.num_targets)
    weight = (torch.arange(points, dtype=torch.float64) * 0.7).sin() + 1.2
    weight[3::7] = 0
    return [_offsets(points, graph.num_targets), weight]


def _offsets_alone(graph: EdgeIndex) -> list[Tensor]:
    return _rest(graph)[:1]


def _last_without_weight(graph: EdgeIndex) -> list[Tensor]:
    """The rest, where no point of the last cloud counts."""
    offsets, weight = _rest(graph)
    weight[offsets[:-1][-1:].sum() :] = 0
    return [offsets, weight]


def _spectrum(dim: int) -> Tensor:
    return 2.0 ** -torch.arange(dim, dtype=torch.float64)


def _cloud_row(
    dim: int, signs: int, scale: int, center: bool = True, null_tol: float = NULL_TOL
) -> Op:
    constants = center, signs, scale, null_tol, SMOOTHING

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        shape = _count(problem.sources, problem.targets), dim
        x = problem.randn("cloud", *shape, dtype=torch.float64)
        return [((x + 0.3 * x.square()) * _spectrum(dim)).to(dtype)]

    def differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *tensors: function(*tensors, *constants)[:-1]

    name = "principal_axes" if dim <= 3 else "principal_axes_nd"
    return Op(
        name,
        differentiable(principal_axes),
        differentiable(principal_axes_reference),
        features,
        _rest,
        label=f"{name} of {dim} components, signs {signs}, scale {scale}, center {center}",
        blas=dim > 3,
        terms=TERMS,
        constants=constants,
        stored=True,
    )


def _weightless_row() -> Op:
    """Points that weigh one each."""
    row = _cloud_row(2, 1, 1)
    constants = None, *row.constants

    def differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *tensors: function(*tensors, *constants)[:-1]

    return replace(
        row,
        call=differentiable(principal_axes),
        reference=differentiable(principal_axes_reference),
        rest=_offsets_alone,
        label="principal_axes without weights",
        constants=constants,
    )


def _stray_row() -> Op:
    """Clouds far from the origin where there are digits for it, and infinite where none counts."""
    row = _cloud_row(2, 1, 1, null_tol=1e-9)  # of how far away they are, which is no null axis

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        (x,) = row.features(problem, dtype)
        x += FAR * (dtype == torch.float64)
        x[3::7] = torch.inf
        return [x]

    return replace(
        row, features=features, rest=_last_without_weight, label="principal_axes of stray points"
    )


def _gradient_row(dim: int, scale: int) -> Op:
    constants = True, scale, SMOOTHING

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        points, clouds = _count(problem.sources, problem.targets), problem.targets
        rows, square, one = (clouds, dim), (clouds, dim, dim), (clouds, 1)
        shapes = [(points, dim), square, rows, rows, one, (points, dim), square, rows, one]
        tensors = [
            problem.randn(f"{k} of a cloud", *shape, dtype=dtype) for k, shape in enumerate(shapes)
        ]
        spread, size = tensors[-2:]
        tensors[-2] = (_spectrum(dim) * (1 + 0.1 * spread.sigmoid().double())).to(dtype)
        tensors[-1] = size.sigmoid() + 0.5
        return tensors

    def with_constants(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *tensors: function(*tensors, *constants)

    return Op(
        "principal_axes_backward",
        with_constants(principal_axes_backward),
        with_constants(principal_axes_backward_reference),
        features,
        _rest,
        label=f"principal_axes_backward of {dim} components, scale {scale}",
        terms=TERMS,
        constants=constants,
        stored=True,
    )


def _eigen_row(size: int) -> Op:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        noise = problem.randn("matrix", problem.sources, size, size, dtype=torch.float64)
        return [(0.1 * noise + torch.diag(_spectrum(size))).to(dtype)]

    return Op(
        "symmetric_eigen",
        symmetric_eigen,
        symmetric_eigen_reference,
        features,
        lambda graph: [],
        label=f"symmetric_eigen of {size} rows",
        terms=TERMS,
    )


def _flags_row(dim: int, signs: int) -> Op:
    tolerances = 1e-7, 1e-4, 1e-5

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        noise = problem.randn("spread", problem.targets, dim, dtype=torch.float64)
        return [(_spectrum(dim) * (1 + 0.3 * noise.sigmoid())).to(dtype)]

    def rest(graph: EdgeIndex) -> list[Tensor]:
        rows = torch.arange(graph.num_targets * dim, dtype=torch.float64).view(-1, dim)
        return [(0.7 * rows).sin(), (1.3 * rows).cos(), *_rest(graph)]

    def gap(function: Callable[..., Any], *after: Any) -> Callable[..., Any]:
        """The other results are flags, which a test of their own compares."""
        return lambda *tensors: function(*tensors, signs, *after)[0]

    return Op(
        "axis_flags",
        gap(axis_flags, tolerances),
        gap(axis_flags_reference, *tolerances),
        features,
        rest,
        label=f"axis_flags of {dim} components, signs {signs}",
        constants=(signs, *tolerances),
        stored=True,
    )


def cloud_rows() -> Iterator[Op]:
    """Rows of every dimension, rule for signs and scale."""
    yield _cloud_row(1, 1, 1)
    yield _cloud_row(2, 3, 2)
    yield _cloud_row(3, 1, 0)
    yield _cloud_row(3, 2, 1, center=False)
    yield _cloud_row(3, 3, 3)
    yield _cloud_row(4, 1, 1)
    yield _weightless_row()
    yield _stray_row()
    yield _gradient_row(1, 1)
    yield _gradient_row(2, 2)
    yield _gradient_row(3, 3)
    yield _flags_row(3, 3)
    yield _flags_row(1, 1)
    yield _flags_row(4, 2)
    yield _eigen_row(2)
    yield _eigen_row(3)
