"""Imports among the modules of the package form no circle, those inside functions included."""

from collections.abc import Iterator

from tests.architecture.source import When, import_graph, refuse, the_package, write_package


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


def test_the_package_has_no_circles():
    found = circles(import_graph(the_package(), When))
    refuse([" <-> ".join(sorted(circle)) for circle in found])


def test_circles_are_found(tmp_path):
    for k, (first, second, count) in enumerate(
        [
            ("from equigeo.mesh.b import g", "from equigeo.mesh.a import f", 1),
            ("from equigeo.mesh.b import g", "def g():\n    import equigeo.mesh.a", 1),
            ("from equigeo.mesh import f", "x = 0", 1),  # by its package
            ("from equigeo.mesh.b import g", "x = 0", 0),
        ]
    ):
        init = "from equigeo.mesh.a import f"
        modules = write_package(
            tmp_path / str(k), mesh____init__=init, mesh__a=first, mesh__b=second
        )
        found = [*circles(import_graph(modules, When))]
        assert len(found) == count
        assert all("equigeo.mesh.a" in circle for circle in found)
