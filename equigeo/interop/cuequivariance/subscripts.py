"""Connections of a tensor product as subscripts of cuEquivariance."""

from __future__ import annotations

from typing import NamedTuple

from equigeo.reps.irreps import Layout


class Modes(NamedTuple):
    """Subscript letters of the multiplicities of each operand of a connection."""

    weight: str
    in1: str
    in2: str
    out: str


# "uvu<v" and "u<vw" are missing: pairs of channels are no axis of a segment.
CONNECTIONS = {
    "uvw": Modes("uvw", "u", "v", "w"),
    "uvu": Modes("uv", "u", "v", "u"),
    "uvv": Modes("uv", "u", "v", "v"),
    "uuw": Modes("uw", "u", "u", "w"),
    "uuu": Modes("u", "u", "u", "u"),
    "uvuv": Modes("uv", "u", "v", "uv"),
}


def with_component(component: str, multiplicities: str, layout: Layout) -> str:
    """Add the letter of a component before or after those of multiplicities."""
    return component + multiplicities if layout == "ir_mul" else multiplicities + component


def without_component(subscripts: str, layout: Layout) -> tuple[str, str]:
    """Separate the letter of the component from those of multiplicities."""
    if layout == "ir_mul":
        return subscripts[:1], subscripts[1:]
    return subscripts[-1:], subscripts[:-1]
