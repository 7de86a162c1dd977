"""Selection of a neighbour-list backend."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Final

from equigeo.graphs.neighbors.backends.backend import Backend
from equigeo.graphs.neighbors.backends.brute_force import brute_force
from equigeo.graphs.neighbors.backends.scipy_tree import scipy_tree
from equigeo.graphs.neighbors.backends.self_test import failed_case
from equigeo.graphs.neighbors.backends.torch_cluster_search import cluster_radius
from equigeo.graphs.neighbors.edge_count import check_edge_count
from equigeo.graphs.neighbors.point_system import Candidates, PointSystem
from equigeo.graphs.neighbors.search_box import SearchBox, search_box


def _boxed(search: Callable[[SearchBox], Candidates]) -> Callable[[PointSystem], Candidates]:
    def candidates(system: PointSystem) -> Candidates:
        box = search_box(system)
        check_edge_count(box)
        return box.given_terms(search(box))

    return candidates


BACKENDS: Final = {
    backend.name: backend
    for backend in (
        Backend("scipy", _boxed(scipy_tree)),
        Backend(
            "torch-cluster",
            _boxed(cluster_radius),
            "torch_cluster",
            "torch-cluster",
            (1, 6),
            periodic=False,
        ),
        Backend("brute", brute_force),
    )
}

PREFERRED: Final = "scipy"
"""Backend of ``auto``: the fastest for many points, by ``bench/neighbors.py``."""


def choose_backend(
    name: str,  # one of `BACKENDS`, or "auto"
    periodic: bool,
) -> Backend:
    """Return a backend by name; raise if it cannot return the correct list."""
    if not isinstance(name, str) or name not in {"auto", *BACKENDS}:
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
    backend = BACKENDS[PREFERRED if name == "auto" else name]
    if periodic and not backend.periodic:
        others = ", ".join(other.name for other in BACKENDS.values() if other.periodic)
        raise ValueError(f"backend {name!r} lists no periodic images: take one of {others}")
    if backend.module is not None:
        _admit(backend.name)
    return backend


@cache
def _admit(name: str) -> None:
    """Import the package of a backend and run its self-test, once per process."""
    backend = BACKENDS[name]
    require_package(backend)
    case = failed_case(backend)
    if case is not None:
        raise RuntimeError(
            f"backend {name!r} is refused: {backend.package} {version(backend.package)} gives a "
            f"wrong list for {case}; take another version, or backend='scipy'"
        )


def require_package(backend: Backend) -> None:
    """Import the package of a backend; raise with the pip command if it is missing or too old."""
    package = backend.package
    try:
        import_module(backend.module or package)
    except (ImportError, OSError) as error:
        raise ImportError(
            f"backend {backend.name!r} needs {package}, which cannot be imported ({error}): "
            f"pip install {package}, or take backend='scipy'"
        ) from error
    found = version(package)
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if numbers < backend.oldest:
        wanted = ".".join(map(str, backend.oldest))
        raise ImportError(
            f"backend {backend.name!r} is refused: {package} {found} is older than {wanted}, the "
            f"oldest that has passed the conformance suite: pip install --upgrade {package}, "
            "or take backend='scipy'"
        )
