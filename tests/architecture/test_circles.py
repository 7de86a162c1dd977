"""No module needs itself: imports among the modules of the package form no circle.

Imports inside functions and for type checkers count as well. At module level there is no circle
at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import When, import_graph, read_modules, refuse, the_package

# ``a + b`` and ``a @ b``, ``dual`` and ``restrict`` are methods of every representation, and make
# representations: what all of them inherit from imports those kinds when it is called.
OPERATORS = {
    "equigeo.reps.representation",
    "equigeo.reps.direct_sum",
    "equigeo.reps.kronecker",
    "equigeo.reps.dual",
    "equigeo.reps.restricted",
}


def circles(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Sets of modules that reach one another."""
    reach = {name: _reach(graph, name) for name in graph}
    left = {name for name in graph if name in reach[name]}
    while left:
        first = min(left)
        circle = {name for name in reach[first] if first in reach[name]}
        left -= circle
        yield circle


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [*graph[start]]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(graph[name])
    return seen


def test_modules_load_without_circles():
    found = circles(import_graph(the_package(), [When.LOADING]))
    assert not [*found], "imports at module level form circles"


def test_only_the_operators_of_representations_form_a_circle():
    found = [circle for circle in circles(import_graph(the_package(), When)) if circle != OPERATORS]
    refuse([" <-> ".join(sorted(circle)) for circle in found])


CIRCLES = {
    "in a module": ("from equigeo.mesh.b import g", "from equigeo.mesh.a import f"),
    "in a function": ("from equigeo.mesh.b import g", "def g():\n    import equigeo.mesh.a"),
    "for types": (
        "from equigeo.mesh.b import g",
        "if TYPE_CHECKING:\n    from equigeo.mesh.a import F",
    ),
    "by its package": ("from equigeo.mesh import f", "x = 0"),
}


def package(tmp_path: Path, first: str, second: str) -> dict[str, set[str]]:
    folder = tmp_path / "equigeo" / "mesh"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from equigeo.mesh.a import f")
    (folder / "a.py").write_text(first)
    (folder / "b.py").write_text(second)
    return import_graph(read_modules(tmp_path), When)


@pytest.mark.parametrize(("first", "second"), CIRCLES.values(), ids=CIRCLES)
def test_a_circle_is_found(tmp_path, first, second):
    (circle,) = circles(package(tmp_path, first, second))
    assert "equigeo.mesh.a" in circle


def test_one_way_is_no_circle(tmp_path):
    assert not [*circles(package(tmp_path, "from equigeo.mesh.b import g", "x = 0"))]
