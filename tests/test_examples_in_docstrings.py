"""Public classes and functions have an executed example; what lacks one is listed, to be fewer."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SURFACE = json.loads((HERE / "api_surface.json").read_text())
LISTED = HERE / "without_example.txt"


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


def has_example(value: Any) -> bool:
    """Whether its docstring, or that of a method of its own, has one that doctest runs."""
    methods = vars(value).values() if inspect.isclass(value) else ()
    texts = [value.__doc__, *(getattr(method, "__doc__", None) for method in methods)]
    return any(">>>" in (text or "") for text in texts)


def test_public_objects_have_an_example():
    lacking = {path for path, value in public_objects().items() if not has_example(value)}
    listed = set(LISTED.read_text().split())
    assert not lacking - listed, "write an example into the docstring"
    assert not listed - lacking, f"has one now, or is gone: take it out of {LISTED.name}"


def test_the_objects_are_found():
    objects = public_objects()
    assert len(objects) > 300
    assert has_example(objects["equigeo.mds.embed"])
    assert not has_example(test_the_objects_are_found)
