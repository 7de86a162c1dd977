"""Layering rules: which package may import which, and which libraries, and what no module does."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY, Module, called, read_modules, refuse, the_package

FAMILIES = {"tensor_products", "affine", "mesh", "mds"}
BELOW_FAMILIES = {"groups", "reps", "ops", "graphs", "points", "nn"}
LAYERS: dict[str, set[str]] = {
    "groups": set(),
    "ops": set(),
    "report": set(),
    "reps": {"groups"},
    "graphs": {"ops"},
    "points": {"graphs", "ops"},
    "nn": {"reps", "ops"},
    **{family: BELOW_FAMILIES for family in FAMILIES},
    "potentials": FAMILIES | BELOW_FAMILIES,
    "testing": {"groups", "reps", "ops"},
    "datasets": {"groups", "graphs", "mesh"},
    "training": FAMILIES | BELOW_FAMILIES | {"testing", "report"},
    "tasks": FAMILIES
    | BELOW_FAMILIES
    | {"training", "datasets", "potentials", "testing", "report"},
    "cli": {"tasks", "datasets", "report", "interop"},  # doctor says what accelerate would do
    "interop": FAMILIES | BELOW_FAMILIES | {"potentials", "testing"},
}
PACKAGES = {*LAYERS, "examples"}
LAYERS["examples"] = PACKAGES - {"cli", "examples"}
LAYERS[""] = PACKAGES - {"interop", "examples", "cli"}  # equigeo/__init__.py, the curated names


def declared(key: str) -> set[str]:
    """Import names of the packages that a list in pyproject.toml declares."""
    metadata = (REPOSITORY / "pyproject.toml").read_text()
    names = re.search(rf"^{key} = \[(.*?)\]$", metadata, re.MULTILINE | re.DOTALL)
    assert names, f"pyproject.toml declares no {key}"
    return {name.replace("-", "_") for name in re.findall(r'"([\w-]+)', names[1])}


CORE_DEPENDENCIES = declared("dependencies")
TRAIN_DEPENDENCIES = declared("train")
TRAIN_PACKAGES = {"training", "tasks", "report", "datasets"}
OPTIONAL_DEPENDENCIES = {  # imported where they are installed
    "datasets": {"PIL", "ase"},
    "graphs": {"matscipy", "torch_cluster", "vesin"},
    "points": {"torch_cluster"},
    "potentials": {"ase"},
}
FREE_PACKAGES = {"interop", "examples"}  # they exist to work with other libraries

GLOBAL_SEEDS = {"torch.manual_seed", "np.random.seed", "numpy.random.seed"}


def violations(modules: dict[str, Module]) -> list[str]:
    """Every broken layering rule, as ``file:line: what``."""
    return [
        f"{module.path}:{line}: {problem}"
        for module in modules.values()
        for line, problem in [*forbidden_imports(module), *forbidden_statements(module)]
    ]


def forbidden_imports(module: Module) -> Iterator[tuple[int, str]]:
    package = module.package
    if package not in LAYERS:
        yield 1, f"{package} has no place in the layers"
        return
    external = CORE_DEPENDENCIES | (TRAIN_DEPENDENCIES if package in TRAIN_PACKAGES else set())
    external = external | OPTIONAL_DEPENDENCIES.get(package, set())
    for entry in module.imports:
        top, *rest = entry.target.split(".")
        if top == "equigeo":
            other = rest[0] if rest and rest[0] in PACKAGES else ""
            if other not in {"", package} | LAYERS[package]:
                yield entry.line, f"{package or 'equigeo'} may not import {other}"
            if entry.name == "*":
                yield entry.line, "a star import hides where names come from"
        elif top not in sys.stdlib_module_names | external and package not in FREE_PACKAGES:
            yield entry.line, f"{package or 'equigeo'} may not depend on {top}"


def forbidden_statements(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assert):
            yield node.lineno, "assert vanishes under -O: raise an error"
        elif isinstance(node, ast.Call):
            name = called(node)
            if name == "print" and module.package != "cli":
                yield node.lineno, "only the command line prints"
            if name in GLOBAL_SEEDS:
                yield node.lineno, f"{name} changes the caller's random numbers"


def test_the_layering_rules_hold():
    refuse(violations(the_package()))


def layers_of_the_page() -> dict[str, set[str]]:
    """The table of imports in docs/architecture.md."""
    page = (REPOSITORY / "docs/architecture.md").read_text()
    text = page.partition("\n## From a call")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", text, re.MULTILINE)
    layers = {}
    for packages, imports in rows:
        named = set(re.findall(r"`(\w+)`", imports))
        if imports.startswith("the families and what is below them"):
            named |= FAMILIES | BELOW_FAMILIES
        for package in re.findall(r"`(\w+)`", packages):
            own = package.replace("equigeo", "")
            layers[own] = PACKAGES - named - {own} if imports.startswith("all but") else named
    return layers


def test_the_page_on_architecture_has_these_layers():
    assert layers_of_the_page() == LAYERS


def test_the_package_is_really_read():
    modules = the_package()
    assert len(modules) > 100
    assert "equigeo.groups.O" in {entry.target for entry in modules["equigeo.reps.irreps"].imports}


def test_declared_dependencies_are_read():
    assert CORE_DEPENDENCIES == {"torch", "numpy", "scipy", "e3nn", "trimesh"}
    assert TRAIN_DEPENDENCIES >= {"lightning", "plotly", "platformdirs"}


def test_the_layers_form_no_circle():
    def reach(package: str, seen: tuple[str, ...] = ()) -> None:
        assert package not in seen, " -> ".join([*seen, package])
        for other in LAYERS[package]:
            reach(other, (*seen, package))

    for package in PACKAGES:
        reach(package)


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
    "from equigeo.tasks import TASKS": "mesh may not import tasks",
    "from equigeo.potentials import x": "mesh may not import potentials",
    "try:\n    import plotly.graph_objects\nexcept ImportError:\n    pass": "depend on plotly",
    "import pandas": "mesh may not depend on pandas",
    "from equigeo import *": "a star import",
    "def f(x):\n    assert x": "assert vanishes",
    "def f(x):\n    print(x)": "only the command line prints",
    "import torch\ntorch.manual_seed(0)": "torch.manual_seed changes",
}


def write(tmp_path: Path, name: str, source: str) -> dict[str, Module]:
    path = tmp_path / "equigeo" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return read_modules(tmp_path)


@pytest.mark.parametrize(("source", "problem"), BROKEN.items())
def test_a_broken_rule_is_reported(tmp_path, source, problem):
    (found,) = violations(write(tmp_path, "mesh/part.py", '"""A part."""\n' + source))
    assert problem in found
    assert found.startswith("equigeo/mesh/part.py:")


BROKEN_ELSEWHERE = {
    "training": "from equigeo.datasets import MeshDataset",
    "cli": "from equigeo.training import fit",
    "datasets": "from equigeo.tasks import TASKS",
    "points": "from equigeo.nn import Linear",
    "report": "from equigeo.groups import O",
}


@pytest.mark.parametrize(("package", "source"), BROKEN_ELSEWHERE.items())
def test_every_package_has_its_layer(tmp_path, package, source):
    (found,) = violations(write(tmp_path, f"{package}/part.py", source))
    assert f"{package} may not import" in found


def test_an_unknown_package_is_reported(tmp_path):
    (found,) = violations(write(tmp_path, "attic/part.py", '"""A part."""\n'))
    assert "attic has no place in the layers" in found


ALLOWED = {
    "mesh/part.py": "import torch\nfrom equigeo.ops import x\nfrom . import y\nfrom .part import z",
    "cli/part.py": "from equigeo import __version__\nfrom equigeo.tasks import f\nprint(1)",
    "datasets/part.py": "import plotly\nfrom equigeo.mesh.errors import MeshError",
    "tasks/part.py": "import lightning\nfrom equigeo.datasets import x\nfrom equigeo.mds import y",
    "potentials/part.py": "from equigeo.tensor_products import make\nfrom equigeo.graphs import x",
    "interop/part.py": "import torch_geometric\nfrom equigeo.mds import embed",
    "__init__.py": "from equigeo import mesh, tensor_products as tp",
    "examples/part.py": "from equigeo.training import f\nfrom equigeo.interop import g",
}


@pytest.mark.parametrize(("name", "source"), ALLOWED.items())
def test_an_allowed_import_is_not_reported(tmp_path, name, source):
    assert violations(write(tmp_path, name, '"""A part."""\n' + source)) == []
