from __future__ import annotations

import os
import random
import zlib

import numpy as np
import pytest
import torch
from hypothesis import settings

# The first call of an op loads and caches things; how long one example takes says nothing.
settings.register_profile("equigeo", deadline=None)
# Every change is judged by the same examples; new ones are searched for on the desk.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "equigeo")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers are those of the test, whichever tests ran before it in its process."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what other libraries draw from
    torch.manual_seed(seed)
