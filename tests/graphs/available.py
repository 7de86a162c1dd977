"""Which backends can be tested here."""

import importlib.util
import os

import pytest

from equigeo.graphs.backend_choice import BACKENDS

# `make test-cluster` names those that must not be left out.
REQUIRED = os.environ.get("EQUIGEO_TEST_BACKENDS", "").split()


def installed(name: str) -> bool:
    module = BACKENDS[name].module
    return module is None or importlib.util.find_spec(module.partition(".")[0]) is not None


def available(names: list[str]) -> list[object]:
    """Names as parameters of tests, skipped where the package is not installed."""
    absent = "its package is not installed: make test-cluster installs it"
    return [
        pytest.param(
            name,
            marks=pytest.mark.skipif(not installed(name) and name not in REQUIRED, reason=absent),
        )
        for name in names
    ]


PERIODIC = available([name for name, backend in BACKENDS.items() if backend.periodic])
ALL = available([*BACKENDS])
