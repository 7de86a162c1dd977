"""Old names warn or name their replacement, and go away in time."""

import sys
import types
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from torch import nn

import equigeo
from equigeo import affine, interop, mds
from equigeo._core import deprecation as _deprecation
from equigeo._core.deprecation import RENAMED, Renamed, renamed
from equigeo.groups import SO
from tests.wrong_inputs import refused


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("toy")
    made.load_mesh = lambda: 1
    monkeypatch.setitem(sys.modules, "toy", made)
    monkeypatch.setattr(_deprecation, "RENAMED", {})
    old = {
        "read_mesh": Renamed("load_mesh", "0.2"),
        "parse": Renamed("load_mesh", "0.2", len),
        "scan": Renamed("load_mesh", "0.2", removed=True),
    }
    made.__getattr__ = renamed("toy", old)
    return made


def test_old_names_are_the_new_objects_or_private_ones_and_warn(module):
    text = r"toy\.read_mesh has been called load_mesh since version 0\.2; .* goes away in 0\.3"
    with pytest.warns(DeprecationWarning, match=text) as caught:
        assert module.read_mesh is module.load_mesh
    assert caught[0].filename == __file__  # where the old name stands, not where it is looked up
    with pytest.warns(DeprecationWarning, match="read_mesh"):
        exec("from toy import read_mesh", {})
    with pytest.warns(DeprecationWarning, match=r"toy\.parse is private, use load_mesh since"):
        assert module.parse is len


def test_other_names_raise_and_new_ones_do_not_warn(module):
    assert module.load_mesh() == 1
    message = "module 'toy' has no attribute 'write_mesh'"
    refused(message, getattr, module, "write_mesh", error=AttributeError)
    message = r"toy\.scan was removed in version 0\.2: use load_mesh"
    refused(message, getattr, module, "scan", error=AttributeError)
    for old, name, remedy in (  # of the last release
        (mds, "gram_root", r"torch\.linalg\.svd"),
        (interop, "heat_distances", r"geodesic_embed\(distances=\)"),
        (interop, "reorder_weights", r"ChannelwiseTensorProduct\(weight_order=\)"),
    ):
        message = rf"{name} was removed in version 0\.3: use .*{remedy}"
        refused(message, getattr, old, name, error=AttributeError)
        assert not hasattr(old, name)
        refused(remedy, exec, f"from {old.__name__} import {name}", {}, error=ImportError)


@pytest.mark.parametrize(
    ("make", "old", "new"),
    [
        (partial(affine.LiftConv, SO(2), 1, 2), {"padding_mode": "circular"}, "spec"),
        (
            partial(affine.ProjectConv, SO(2), 1, 2, affine.KernelSpec(3)),
            {"padding_mode": "circular"},
            "spec",
        ),
        (partial(mds.Invariant, nn.Identity()), {"reduce": "max"}, "options"),
        (
            partial(mds.Invariant, nn.Identity()),
            {"training_sample": True, "options": mds.EmbedOptions(softness=0.2)},
            "options",
        ),
    ],
)
def test_old_arguments_become_fields_of_a_configuration(make, old, new):
    name, value = next(iter(old.items()))
    text = rf"the argument {name} of \w+ is {new}=\w+\({name}=\.\.\.\) since version 0\.3"
    with pytest.warns(DeprecationWarning, match=text) as caught:
        layer = make(**old)
    assert caught[0].filename == __file__
    config = getattr(layer, new)
    assert config == replace(old.get(new, getattr(make(), new)), **{name: value})


@pytest.mark.parametrize(
    ("version", "is_overdue"),
    [("0.2.7", False), ("0.3.0", True), ("0.10.0", True), ("1.0.0", True)],
)
def test_old_names_last_one_minor_version(version, is_overdue, monkeypatch):
    monkeypatch.setattr(_deprecation, "__version__", version)
    assert Renamed("x", since="0.2").is_overdue == is_overdue


def test_no_old_name_of_the_library_is_overdue():
    assert equigeo.__version__ == _deprecation.__version__
    root = Path(equigeo.__file__).parent
    for path in root.rglob("*.py"):  # old names are known where their modules are imported
        text = path.read_text()
        if ("Renamed(" in text or "private_names(" in text) and path.name != "deprecation.py":
            name = ".".join(["equigeo", *path.relative_to(root).with_suffix("").parts])
            import_module(name.removesuffix(".__init__"))
    assert "equigeo selftest" in RENAMED
    for module, _, name in (old.rpartition(".") for old in RENAMED):
        assert name not in vars(sys.modules.get(module, sys)), "access does not warn"
    assert not [name for name, entry in RENAMED.items() if entry.is_overdue]
    for entry in RENAMED.values():
        if isinstance(entry.private, str):
            place, _, name = entry.private.partition(":")
            assert hasattr(import_module(place), name), entry.private
