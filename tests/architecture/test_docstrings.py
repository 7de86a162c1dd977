"""Docstrings of private functions, methods and classes are short."""

import ast
from collections.abc import Iterator

from tests.architecture.source import Module, refuse, the_package, write_package

MAX_LINES = 3
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Public classes inherit these members.
BASES = {"ChartedGroup", "Config", "HeldProduct", "IrrepsNorm", "MeshModel"}
BASES |= {"PointNetwork", "RadialFunction", "WeightedPaths"}


def exported(modules: dict[str, Module]) -> set[str]:
    """Return the names in ``__all__`` of any package."""
    found: set[str] = set()
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found |= {x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant)}
    return found


def long_docstrings(modules: dict[str, Module]) -> Iterator[str]:
    names = exported(modules) | BASES
    for module in modules.values():
        for node in private(module.tree, names):
            lines = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
            if lines > MAX_LINES:
                place = f"{module.path}:{node.lineno}"
                yield f"{place}: {node.name} is private, its docstring has {lines} lines"


def private(node: ast.AST, names: set[str] | None) -> Iterator[Definition]:
    """Yield private definitions; those named are public, and so are members of public classes."""
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, Definition):
            yield from private(part, names)
        elif part.name.startswith("_") or (names is not None and part.name not in names):
            yield part
            yield from private(part, set())
        elif isinstance(part, ast.ClassDef):
            yield from private(part, None)


def test_private_docstrings_are_short():
    refuse(long_docstrings(the_package()))


def test_long_docstrings_are_reported(tmp_path):
    long = '"""Do.\n\n    x\n    y\n    """\n'
    methods = "".join(f"    def {name}(self):\n        {long}" for name in ("f", "_g"))
    source = f"class A:\n    {long}{methods}def b():\n    {long}"
    modules = write_package(tmp_path, mesh____init__='__all__ = ["A"]\n', mesh__a=source)
    assert [found.split()[1] for found in long_docstrings(modules)] == ["_g", "b"]
