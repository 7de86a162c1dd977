import os
import random
import zlib
from collections import defaultdict
from typing import Any

# Parallel workers whose threads wait for each other are ten times as slow; read when PyTorch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.tier import FULL

# The first call of an op loads and caches things, so that the time of one example means nothing.
settings.register_profile("fast", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("full", deadline=None, max_examples=100)
settings.load_profile("full" if FULL else "fast")


# Each of their tests runs by itself; those of other files share fixtures.
TABLES = ("tests/modes/test_modes.py", "tests/ops/test_ops.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a file in one worker, but those of tables in any."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return nodeid if file in TABLES else file

    return Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of the full tier in the fast one; shuffle where a seed is given."""
    if seed := os.environ.get("EQUIGEO_SHUFFLE"):  # files, and the tests of each
        draw = random.Random(int(seed)).random
        files: dict[object, float] = defaultdict(draw)
        items.sort(key=lambda item: (files[item.path], draw()))
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
