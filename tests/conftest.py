from __future__ import annotations

import os
import random
import zlib

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.tier import FULL

# The first call of an op loads and caches things, so that the time of one example means nothing.
settings.register_profile("fast", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("full", deadline=None, max_examples=100)
settings.load_profile("full" if FULL else "fast")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of the full tier in the fast one; shuffle where a seed is given."""
    if seed := os.environ.get("EQUIGEO_SHUFFLE"):
        random.Random(int(seed)).shuffle(items)
    if FULL:
        return
    later = [item for item in items if item.get_closest_marker("full")]
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed all generators by the name of the test, so that results do not depend on the order."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what other libraries draw from
    torch.manual_seed(seed)
