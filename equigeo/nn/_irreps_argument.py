"""Conversion of representation arguments of layers."""

from __future__ import annotations

from collections.abc import Iterable

from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Layout, Term

IrrepsLike = str | Irreps | Iterable[Term]


def irreps_argument(
    name: str,  # argument name in messages
    irreps: IrrepsLike,
    layout: Layout,  # layout of the layer
) -> Irreps:
    """Convert an argument to irreps in the layout of a layer, or raise an error that names it."""
    # Sizes agree in both layouts, so no later check would catch this.
    if isinstance(irreps, Irreps) and irreps.layout != layout:
        raise ValueError(f"{name} has the layout {irreps.layout!r}, the layer {layout!r}")
    try:
        return Irreps(irreps, layout)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def representation_argument(
    name: str,  # argument name in messages
    rep: Representation | IrrepsLike,
    layout: Layout = "mul_ir",
) -> Representation:
    """Convert an argument to a linear representation, reading irreps in the layout of a layer."""
    if not isinstance(rep, Representation):
        return irreps_argument(name, rep, layout)
    if not rep.is_linear:
        raise TypeError(f"{name} must be linear, got {rep}: give differences of points")
    return rep
