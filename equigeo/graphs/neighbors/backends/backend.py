"""Description of a neighbour-list backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from equigeo.graphs.neighbors.point_system import Candidates, PointSystem


@dataclass(frozen=True)
class Backend:
    """Backend that lists candidate edges, with its capabilities."""

    name: str
    candidates: Callable[[PointSystem], Candidates]  # returns pairs that include all edges
    module: str | None = None  # module to import, if any
    package: str = ""  # package to install for it
    oldest: tuple[int, ...] = ()  # oldest version that passed the conformance suite
    periodic: bool = True  # supports periodic images
