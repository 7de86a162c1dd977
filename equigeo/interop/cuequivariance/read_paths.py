"""Paths of a tensor product read off a segmented tensor product."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equigeo.interop.cuequivariance.subscripts import CONNECTIONS, without_component
from equigeo.interop.descriptions.product_description import SharedPath
from equigeo.reps import Irreps, wigner_3j


def read_paths(
    stp: Any,  # operands are the weights, if any, both inputs and the output
    irreps: Sequence[Irreps],  # both inputs and the output, in the layout of the segments
) -> Iterator[tuple[int | None, SharedPath]]:
    """Yield the weight segment and the path, without shape, of each path of a product."""
    letters = [subscripts for _, subscripts in stp.operands_and_subscripts]
    if len(letters) not in (3, 4):
        raise ValueError(f"{stp.subscripts} is no product of two features")
    weight = letters[0] if len(letters) == 4 else ""
    split = [without_component(text, irreps[0].layout) for text in letters[-3:]]
    components = [component for component, _ in split]
    muls = [modes for _, modes in split]
    coefficient = stp.coefficient_subscripts
    if not set(components) <= set(coefficient) or len(set(components)) < 3:
        raise ValueError(f"{stp.subscripts} couples no components of two features to those of one")
    _check_segments(stp, irreps)
    axes = [coefficient.index(m) for m in components]
    axes += [n for n, m in enumerate(coefficient) if m not in components]
    for path in stp.paths:
        indices = path.indices[-3:]
        terms = [each.terms[n] for each, n in zip(irreps, indices, strict=True)]
        # Axes of length one that only fill up a segment, or the single output of a sum.
        padding = {m for m in coefficient if stp.get_path_dim(path, m) == 1} - {*muls[0], *muls[1]}
        connection = _connection(weight, muls, padding, stp)
        if connection == "uvuv" and terms[1][0] == 1:
            connection = "uvu"
        degrees = [l for _, (l, _) in terms]
        factor = _factor(np.transpose(path.coefficients, axes), degrees)
        position = path.indices[0] if weight else None
        yield (
            position,
            SharedPath(indices[0], indices[1], indices[2], connection, bool(weight), factor, ()),
        )


def _check_segments(stp: Any, irreps: Sequence[Irreps]) -> None:
    """Raise if the segments of operands are not the terms of their irreps."""
    for operand, each in zip(stp.operands[-3:], irreps, strict=True):
        found = [_channels(shape, each) for shape in operand.segments]
        expected = [(2 * l + 1, mul) for mul, (l, _) in each]
        if found != expected:
            raise ValueError(f"segments {operand.segments} are not the terms of {each}")


def _channels(shape: Sequence[int], irreps: Irreps) -> tuple[int, int]:
    """Return components and channels of a segment."""
    if irreps.layout == "ir_mul":
        return shape[0], math.prod(shape[1:])
    return shape[-1], math.prod(shape[:-1])


def _connection(weight: str, muls: Sequence[str], padding: set[str], stp: Any) -> str:
    """Return the name of the connection of channels and weights."""
    names: dict[str, str] = {}
    for letter, name in ((muls[0], "u"), (muls[1], "v")):
        names.setdefault(letter, name)
    found = [
        "".join(names.get(m, "w") for m in text if m not in padding) for text in (weight, *muls)
    ]
    for connection, modes in CONNECTIONS.items():
        wanted = modes if weight else ("", *modes[1:])
        if found == list(wanted):
            return connection
    if found == ["", "u", "u", ""]:
        return "uuw"
    raise ValueError(f"{stp.subscripts} is no connection of a TensorProduct")


def _factor(coefficients: np.ndarray, degrees: Sequence[int]) -> float:
    """Return the ratio of a coupling to the coupling of unit norm."""
    expected = wigner_3j(*degrees).numpy()
    if coefficients.shape[:3] != expected.shape:
        raise ValueError(
            f"coefficients of degrees {degrees} must be {expected.shape}, "
            f"got {coefficients.shape[:3]}"
        )
    given = coefficients.reshape(*expected.shape, -1)
    factor = float((given[..., :1] * expected[..., None]).sum())
    # cuEquivariance computes couplings of "O3_e3nn" in float32.
    if np.abs(given - factor * expected[..., None]).max() > 1e-6 * max(abs(factor), 1):
        raise ValueError(f"coefficients of degrees {degrees} are no multiple of a coupling")
    return factor
