"""What is missing is said before anything begins, in one message that can be pasted."""

from __future__ import annotations

import importlib.util
import re

import pytest

from equigeo.cli import require_packages as module
from equigeo.cli.require_packages import VERSIONS, require_packages
from tests.architecture.source import REPOSITORY


def test_the_versions_are_those_of_the_metadata():
    metadata = (REPOSITORY / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^train = \[(.*)\]$", metadata, re.MULTILINE)
    assert re.findall(r'"([^"]+)"', listed) == [name + v for name, v in VERSIONS.items()]


def test_all_that_is_missing_is_named_at_once(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError) as caught:
        require_packages({"lightning": "training"})
    assert str(caught.value) == (
        "training needs lightning (and other commands want plotly, platformdirs): "
        "pip install 'lightning>=2.6,<3' 'plotly>=5.20' 'platformdirs>=3'"
    )


def test_what_a_command_does_not_need_does_not_stop_it(monkeypatch):
    found = importlib.util.find_spec
    without = lambda name: None if name == "plotly" else found(name)  # noqa: E731
    monkeypatch.setattr(module.importlib.util, "find_spec", without)
    require_packages({"lightning": "training"})
    with pytest.raises(ImportError, match=r"a report needs plotly: pip install 'plotly>=5\.20'"):
        require_packages({"plotly": "a report"})


def test_what_a_logger_needs_is_named_with_the_rest(monkeypatch):
    found = importlib.util.find_spec
    missing = ("lightning", "wandb")
    without = lambda name: None if name in missing else found(name)  # noqa: E731
    monkeypatch.setattr(module.importlib.util, "find_spec", without)
    with pytest.raises(ImportError) as caught:
        require_packages({"lightning": "training", "wandb": "the logger wandb"})
    assert str(caught.value) == (
        "training needs lightning and the logger wandb needs wandb: "
        "pip install 'lightning>=2.6,<3' wandb"
    )
