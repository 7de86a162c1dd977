"""Layering rules: which package may import which others and which libraries."""

import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

from tests.architecture.source import REPOSITORY, Module, refuse, the_package, write_package

FAMILIES = {"tensor_products", "affine", "mesh", "mds"}
BELOW_FAMILIES = {"groups", "reps", "ops", "graphs", "points", "nn"}
LAYERS: dict[str, set[str]] = {
    "_core": set(),
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
    "training": FAMILIES | BELOW_FAMILIES | {"testing", "report", "datasets"},
    "tasks": FAMILIES
    | BELOW_FAMILIES
    | {"training", "datasets", "potentials", "testing", "report"},
    "cli": {"tasks", "training", "datasets", "report", "interop"},  # doctor reports on accelerate
    "interop": FAMILIES | BELOW_FAMILIES | {"potentials", "testing"},
}
PACKAGES = {*LAYERS, "examples"}  # every package imports _core as well
LAYERS["examples"] = PACKAGES - {"cli", "examples", "_core"}
# equigeo/__init__.py, the curated names
LAYERS[""] = PACKAGES - {"interop", "examples", "cli", "_core"}


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
    "cli": {"shtab", "tqdm"},
    "datasets": {"PIL", "ase"},
    "graphs": {"torch_cluster"},
    "mesh": {"lxml"},
    "points": {"torch_cluster"},
    "potentials": {"ase"},
}
FREE_PACKAGES = {"interop", "examples"}  # they exist to work with other libraries


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
            if other not in {"", package, "_core"} | LAYERS[package]:
                yield entry.line, f"{package or 'equigeo'} may not import {other}"
            if entry.name == "*":
                yield entry.line, "a star import hides where names come from"
        elif top not in sys.stdlib_module_names | external and package not in FREE_PACKAGES:
            yield entry.line, f"{package or 'equigeo'} may not depend on {top}"


def violations(modules: dict[str, Module]) -> list[str]:
    """Every broken layering rule, as ``file:line: what``."""
    return [
        f"{module.path}:{line}: {problem}"
        for module in modules.values()
        for line, problem in forbidden_imports(module)
    ]


def test_the_layering_rules_hold():
    refuse(violations(the_package()))
    TopologicalSorter(LAYERS).prepare()  # raises where the layers form a circle
    assert layers_of_the_page() == LAYERS


VALIDATED_TWICE = {  # remove entries, never add: these call public functions of ops
    ("equigeo.mds.align", "principal_axes"),
    ("equigeo.mesh.nn.field_conv", "gather_sum"),
    ("equigeo.tensor_products.so2.so2_conv", "so2_conv"),
}


def calls_of_public_ops(modules: dict[str, Module]) -> set[tuple[str, str]]:
    """Module and name of every import of a public op function by library code."""
    ops = [module.source for module in modules.values() if module.package == "ops"]
    declared = re.compile(r"^(\w+)_op\b.* = declare", re.MULTILINE)
    public = {op for text in ops for op in declared.findall(text)}
    return {
        (module.name, entry.name or entry.target)
        for module in modules.values()
        if module.package in {*FAMILIES, *BELOW_FAMILIES, "potentials"} - {"ops"}
        for entry in module.imports
        if (entry.base.startswith("equigeo.ops") and entry.name in public)
        or entry.target == "equigeo.ops"
    }


def test_library_code_calls_ops_past_their_public_functions(tmp_path):
    assert calls_of_public_ops(the_package()) == VALIDATED_TWICE
    sources = {
        "ops__sum": "def total(x): ...\ntotal_op = declare(SCHEMA)",
        "mesh__public": "from equigeo.ops.sum import total",
        "mesh__whole": "from equigeo import ops",
        "mesh__direct": "from equigeo.ops.sum import total_op",
    }
    found = calls_of_public_ops(write_package(tmp_path, **sources))
    assert found == {("equigeo.mesh.public", "total"), ("equigeo.mesh.whole", "ops")}


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
            layers[own] = (
                PACKAGES - named - {own, "_core"} if imports.startswith("all but") else named
            )
    return layers


BROKEN = {
    "import equigeo.training.fit": "mesh may not import training",
    "from equigeo import mds": "mesh may not import mds",
    "from ..tensor_products import make": "mesh may not import tensor_products",
    "def f():\n    from equigeo.affine import LiftConv": "mesh may not import affine",
    "if TYPE_CHECKING:\n    from equigeo.examples import x": "mesh may not import examples",
    "import importlib\nimportlib.import_module('equigeo.testing')": "mesh may not import testing",
    "try:\n    import plotly.graph_objects\nexcept ImportError:\n    pass": "depend on plotly",
    "import pandas": "mesh may not depend on pandas",
    "from equigeo import *": "a star import",
}


def test_broken_rules_are_reported(tmp_path):
    allowed = "import torch\nfrom equigeo.ops import x\nfrom . import y\nfrom .part import z"
    for k, (source, problem) in enumerate(BROKEN.items()):
        package = write_package(tmp_path / str(k), mesh__part=source, mesh__fine=allowed)
        (found,) = violations(package)
        assert problem in found
        assert found.startswith("equigeo/mesh/part.py:")
    (found,) = violations(write_package(tmp_path, attic__part=""))
    assert "attic has no place in the layers" in found
