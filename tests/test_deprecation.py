"""Old names warn or name their replacement, and go away in time."""

import sys
import types
from importlib import import_module
from pathlib import Path

import pytest

import equigeo
from equigeo import interop, mds
from equigeo._core import deprecation as _deprecation
from equigeo._core.deprecation import RENAMED, Renamed, renamed


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


def test_an_old_name_is_the_new_object_and_warns(module):
    text = r"toy\.read_mesh has been called load_mesh since version 0\.2; .* goes away in 0\.3"
    with pytest.warns(DeprecationWarning, match=text) as caught:
        assert module.read_mesh is module.load_mesh
    assert caught[0].filename == __file__  # where the old name stands, not where it is looked up
    with pytest.warns(DeprecationWarning, match="read_mesh"):
        exec("from toy import read_mesh", {})


def test_a_private_object_is_found_under_its_old_name(module):
    with pytest.warns(DeprecationWarning, match=r"toy\.parse is private, use load_mesh since"):
        assert module.parse is len


def test_other_names_raise_and_new_ones_do_not_warn(module):
    assert module.load_mesh() == 1
    with pytest.raises(AttributeError, match="module 'toy' has no attribute 'write_mesh'"):
        _ = module.write_mesh
    with pytest.raises(
        AttributeError, match=r"toy\.scan was removed in version 0\.2: use load_mesh"
    ):
        _ = module.scan


@pytest.mark.parametrize(
    ("module", "name", "remedy"),
    [
        (mds, "gram_root", r"torch\.linalg\.svd"),
        (interop, "heat_distances", r"geodesic_embed\(distances=\)"),
        (interop, "reorder_weights", r"ChannelwiseTensorProduct\(weight_order=\)"),
    ],
)
def test_a_removed_name_of_the_last_release_names_its_replacement(module, name, remedy):
    with pytest.raises(
        AttributeError, match=rf"{name} was removed in version 0\.3: use .*{remedy}"
    ):
        getattr(module, name)


def test_old_name_lasts_one_minor_version(monkeypatch):
    for version, is_overdue in {
        "0.2.7": False,
        "0.3.0": True,
        "0.10.0": True,
        "1.0.0": True,
    }.items():
        monkeypatch.setattr(_deprecation, "__version__", version)
        assert Renamed("x", since="0.2").is_overdue == is_overdue, version


def test_no_old_name_of_the_library_is_overdue():
    assert equigeo.__version__ == _deprecation.__version__
    root = Path(equigeo.__file__).parent
    for path in root.rglob("*.py"):  # old names are known where their modules are imported
        if "Renamed(" in path.read_text() and path.name != "deprecation.py":
            import_module(".".join(["equigeo", *path.relative_to(root).with_suffix("").parts]))
    assert "equigeo selftest" in RENAMED
    assert not [name for name, entry in RENAMED.items() if entry.is_overdue]
