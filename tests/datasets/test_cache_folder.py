"""Where the cache is, with and without the variable; asking creates nothing."""

import sys
from pathlib import Path

import pytest

from equigeo.datasets.cache_folder import cache_folder


def test_the_variable_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    assert not (tmp_path / "cache").exists()


def test_the_home_folder_and_relative_paths_are_resolved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EQUIGEO_CACHE", "~/data")
    assert cache_folder() == tmp_path / "home" / "data"
    monkeypatch.setenv("EQUIGEO_CACHE", "data")
    assert cache_folder() == Path.cwd() / "data"


def test_without_platformdirs_the_remedy_is_named(monkeypatch):
    monkeypatch.delenv("EQUIGEO_CACHE", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ImportError, match="set EQUIGEO_CACHE"):
        cache_folder()
