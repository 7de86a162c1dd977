"""Reading irreps that a caller passed to a layer."""

from __future__ import annotations

from collections.abc import Iterable

from equigeo.reps import Irreps
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
