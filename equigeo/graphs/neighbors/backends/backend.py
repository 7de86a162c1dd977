"""What a backend is: who lists candidates, and what may be asked.

On its own because the checks of backends need it, and the switch needs those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from equigeo.graphs.neighbors.point_system import Candidates, PointSystem


@dataclass(frozen=True)
class Backend:
    """Who lists candidates, and what may be asked.

    Parameters
    ----------
    name : str
        In the switch.
    candidates : callable
        From a system to pairs among which its edges are.
    module : str, optional
        What has to be importable; nothing by default.
    package : str
        What to install for that.
    oldest : tuple of int
        Versions before have not passed the conformance suite.
    periodic : bool
        Whether it lists images.
    only_space : bool
        Whether points must have three coordinates.
    """

    name: str
    candidates: Callable[[PointSystem], Candidates]
    module: str | None = None
    package: str = ""
    oldest: tuple[int, ...] = ()
    periodic: bool = True
    only_space: bool = False
