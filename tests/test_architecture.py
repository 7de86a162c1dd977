"""The house rules: arrows between rooms, dependencies, and the form of every module."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "equigeo"

FAMILIES = {"tensor_products", "affine", "mesh", "mds"}
BELOW_FAMILIES = {"groups", "reps", "ops", "graphs", "points", "nn"}
ARROWS: dict[str, set[str]] = {
    "groups": set(),
    "ops": set(),
    "report": set(),
    "reps": {"groups"},
    "graphs": {"ops"},
    "points": {"graphs", "ops"},
    "nn": {"reps", "ops"},
    **{family: BELOW_FAMILIES for family in FAMILIES},
    "testing": {"groups", "reps"},
    "datasets": {"groups", "graphs", "mesh"},
    "training": FAMILIES | BELOW_FAMILIES | {"datasets", "testing", "report"},
    "cli": {"training", "datasets", "report"},
    "interop": FAMILIES | BELOW_FAMILIES,
}
ROOMS = {*ARROWS, "examples"}
ARROWS["examples"] = ROOMS - {"cli", "examples"}
ARROWS[""] = ROOMS - {"interop", "examples", "cli"}  # equigeo/__init__.py, the curated names


def declared(key: str) -> set[str]:
    """Import names of the packages that a list in pyproject.toml declares."""
    metadata = (PACKAGE.parent / "pyproject.toml").read_text()
    names = re.search(rf"^{key} = \[(.*?)\]$", metadata, re.MULTILINE | re.DOTALL)
    assert names, f"pyproject.toml declares no {key}"
    return {name.replace("-", "_") for name in re.findall(r'"([\w-]+)', names[1])}


CORE_DEPENDENCIES = declared("dependencies")
TRAIN_DEPENDENCIES = declared("train")
TRAIN_ROOMS = {"training", "report", "datasets"}
OPTIONAL_DEPENDENCIES = {"points": {"torch_cluster"}}  # imported where they are installed
FREE_ROOMS = {"interop", "examples"}  # they exist to meet other libraries

MAX_LINES = 400
GLOBAL_SEEDS = {"torch.manual_seed", "np.random.seed", "numpy.random.seed"}


def violations(package: Path) -> list[str]:
    """Every broken rule in a package, as ``file:line: what``."""
    found = []
    for path in sorted(package.rglob("*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        parts = path.relative_to(package.parent).with_suffix("").parts
        room = parts[1] if len(parts) > 2 else ""
        problems = [
            *forbidden_imports(tree, parts, room),
            *forbidden_statements(tree, room),
            *module_form(tree, source),
        ]
        name = path.relative_to(package.parent)
        found.extend(f"{name}:{line}: {problem}" for line, problem in problems)
    return found


def forbidden_imports(
    tree: ast.Module, parts: tuple[str, ...], room: str
) -> Iterator[tuple[int, str]]:
    if room not in ARROWS:
        yield 1, f"{room} is not a room of the house"
        return
    external = CORE_DEPENDENCIES | (TRAIN_DEPENDENCIES if room in TRAIN_ROOMS else set())
    external = external | OPTIONAL_DEPENDENCIES.get(room, set())
    for line, target in imported_modules(tree, parts):
        top, *rest = target.split(".")
        if top == "equigeo":
            other = rest[0] if rest and rest[0] in ROOMS else ""
            if other not in {"", room} | ARROWS[room]:
                yield line, f"{room or 'equigeo'} may not import {other}"
            if rest and rest[0] == "*":
                yield line, "a star import hides where names come from"
        elif top not in sys.stdlib_module_names | external and room not in FREE_ROOMS:
            yield line, f"{room or 'equigeo'} may not depend on {top}"


def imported_modules(tree: ast.Module, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Absolute names of all imported modules, wherever in the file the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*parts[: len(parts) - node.level]] if node.level else []
            base += [node.module] if node.module else []
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in DYNAMIC_IMPORTS and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


DYNAMIC_IMPORTS = {"__import__", "import_module", "importlib.import_module"}


def called(node: ast.Call) -> str:
    """Dotted name of the function in a call."""
    return ast.unparse(node.func)


def forbidden_statements(tree: ast.Module, room: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.lineno, "assert vanishes under -O: raise an error"
        elif isinstance(node, ast.Call):
            name = called(node)
            if name == "print" and room != "cli":
                yield node.lineno, "only the command line prints"
            if name in GLOBAL_SEEDS:
                yield node.lineno, f"{name} changes the caller's random numbers"


def module_form(tree: ast.Module, source: str) -> Iterator[tuple[int, str]]:
    if not (ast.get_docstring(tree) or "").strip(" ."):
        yield 1, "the module has no docstring"
    lines = len(source.splitlines())
    if lines > MAX_LINES:
        yield lines, f"the module has {lines} lines, more than {MAX_LINES}"


def test_the_house_rules_hold():
    assert not (found := violations(PACKAGE)), "\n".join(found)


def test_the_package_is_really_read():
    assert len(list(PACKAGE.rglob("*.py"))) > 20
    tree = ast.parse((PACKAGE / "reps" / "irreps.py").read_text())
    parts = ("equigeo", "reps", "irreps")
    assert "equigeo.groups.O" in {name for _, name in imported_modules(tree, parts)}


def test_declared_dependencies_are_read():
    assert CORE_DEPENDENCIES == {"torch", "numpy", "scipy", "e3nn", "trimesh"}
    assert TRAIN_DEPENDENCIES >= {"lightning", "plotly", "platformdirs"}


def test_arrows_lead_nowhere_in_a_circle():
    def reach(room: str, seen: tuple[str, ...] = ()) -> None:
        assert room not in seen, " -> ".join([*seen, room])
        for other in ARROWS[room]:
            reach(other, (*seen, room))

    for room in ROOMS:
        reach(room)


BROKEN = {
    "from equigeo.datasets import MeshDataset": "mesh may not import datasets",
    "import equigeo.training.fit": "mesh may not import training",
    "from equigeo import mds": "mesh may not import mds",
    "from equigeo import cli as c": "mesh may not import cli",
    "from ..tensor_products import make": "mesh may not import tensor_products",
    "from .. import interop": "mesh may not import interop",
    "def f():\n    from equigeo.affine import LiftConv": "mesh may not import affine",
    "if TYPE_CHECKING:\n    from equigeo.examples import x": "mesh may not import examples",
    "import importlib\nimportlib.import_module('equigeo.testing')": "mesh may not import testing",
    "__import__('equigeo.report')": "mesh may not import report",
    "try:\n    import plotly.graph_objects\nexcept ImportError:\n    pass": "depend on plotly",
    "import pandas": "mesh may not depend on pandas",
    "from equigeo import *": "a star import",
    "def f(x):\n    assert x": "assert vanishes",
    "def f(x):\n    print(x)": "only the command line prints",
    "import torch\ntorch.manual_seed(0)": "torch.manual_seed changes",
    "x = 0\n" * 400: "has 401 lines",
}


def write(tmp_path: Path, name: str, source: str) -> Path:
    path = tmp_path / "equigeo" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return tmp_path / "equigeo"


@pytest.mark.parametrize(("source", "problem"), BROKEN.items())
def test_a_broken_rule_is_reported(tmp_path, source, problem):
    package = write(tmp_path, "mesh/part.py", '"""A part."""\n' + source)
    (found,) = violations(package)
    assert problem in found
    assert found.startswith("equigeo/mesh/part.py:")


@pytest.mark.parametrize("docstring", ["", '""', '"""..."""', "# no docstring"])
def test_a_missing_docstring_is_reported(tmp_path, docstring):
    (found,) = violations(write(tmp_path, "mesh/part.py", docstring + "\n"))
    assert "no docstring" in found


def test_an_unknown_room_is_reported(tmp_path):
    (found,) = violations(write(tmp_path, "attic/part.py", '"""A part."""\n'))
    assert "attic is not a room of the house" in found


ALLOWED = {
    "mesh/part.py": "import torch\nfrom equigeo.ops import x\nfrom . import y\nfrom .part import z",
    "cli/part.py": "from equigeo import __version__\nfrom equigeo.training import f\nprint(1)",
    "datasets/part.py": "import plotly\nfrom equigeo.mesh.errors import MeshError",
    "points/part.py": "import importlib\nimportlib.import_module('torch_cluster')",
    "interop/part.py": "import torch_geometric\nfrom equigeo.mds import embed",
    "__init__.py": "from equigeo import mesh, tensor_products as tp",
    "examples/part.py": "from equigeo.training import f\nfrom equigeo.interop import g",
}


@pytest.mark.parametrize(("name", "source"), ALLOWED.items())
def test_an_allowed_import_is_not_reported(tmp_path, name, source):
    assert violations(write(tmp_path, name, '"""A part."""\n' + source)) == []
