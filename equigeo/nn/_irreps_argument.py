"""Reading representations that a caller passed to a layer."""

from __future__ import annotations

from collections.abc import Iterable

from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Layout, Term

IrrepsLike = str | Irreps | Iterable[Term]


def irreps_argument(name: str, irreps: IrrepsLike, layout: Layout) -> Irreps:
    """Read irreps in the layout of a layer.

    Parameters
    ----------
    name : str
        Of the argument, for the error.
    irreps : Irreps, e3nn.o3.Irreps or str
        What the caller gave.
    layout : {"mul_ir", "ir_mul"}
        Layout of the layer.

    Returns
    -------
    Irreps
        In ``layout``.

    Raises
    ------
    ValueError
        If the irreps cannot be read, or are Irreps of another layout: sizes agree, so that nothing
        else would notice.
    TypeError
        If ``irreps`` is something else.
    """
    if layout not in ("mul_ir", "ir_mul"):
        raise ValueError(f'layout must be "mul_ir" or "ir_mul", got {layout!r}')
    if isinstance(irreps, Irreps) and irreps.layout != layout:
        raise ValueError(f"{name} has the layout {irreps.layout!r}, the layer {layout!r}")
    try:
        return Irreps(irreps, layout)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def representation_argument(
    name: str, rep: Representation | IrrepsLike, layout: Layout = "mul_ir"
) -> Representation:
    """Read a representation, or irreps in the layout of a layer.

    Parameters
    ----------
    name : str
        Of the argument, for the error.
    rep : Representation, e3nn.o3.Irreps or str
        What the caller gave.
    layout : {"mul_ir", "ir_mul"}
        Of irreps that are no representation yet.

    Returns
    -------
    Representation
        Linear.

    Raises
    ------
    ValueError
        If irreps cannot be read.
    TypeError
        If ``rep`` is something else, or its action is affine.
    """
    if not isinstance(rep, Representation):
        return irreps_argument(name, rep, layout)
    if not rep.is_linear:
        raise TypeError(f"{name} must be linear, got {rep}: give differences of points")
    return rep
