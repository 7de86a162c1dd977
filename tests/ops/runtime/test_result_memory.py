"""Memory of large results is kept, within a limit, and used again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from equigeo.ops import (
    PathTable,
    channelwise_product,
    kept_result_memory,
    kernels_info,
    limit_result_memory,
)
from tests.ops.channelwise_rows import channelwise_path

MEBIBYTE = 2**20
pytestmark = pytest.mark.skipif(
    kernels_info()["cpu"] is None, reason="memory is that of compiled ops"
)


@pytest.fixture(autouse=True)
def limit():
    limit_result_memory(0)
    limit_result_memory(256 * MEBIBYTE)
    yield
    limit_result_memory(1024 * MEBIBYTE)


def product(rows: int, offset: float = 0.0) -> torch.Tensor:
    """Scalars times scalars: x y, 512 channels, 2 KiB a row."""
    path = channelwise_path(0, 0, 0, None, 512, 1, torch.ones(1, 1, 1))
    table = PathTable.from_paths([path], (512, 1, 0, 512), by_output=True)
    x = torch.arange(512.0).expand(rows, 512) + offset
    return channelwise_product(x, torch.full((rows, 1), 2.0), None, table)


def test_keeps_memory_of_large_results_and_uses_it_again():
    out = product(16_384)
    address, before = out.data_ptr(), kept_result_memory()
    del out
    assert kept_result_memory() == before + 32 * MEBIBYTE
    again = product(16_384, offset=1.0)
    assert again.data_ptr() == address
    assert kept_result_memory() == before
    # Such memory is written past the caches: every number arrives.
    assert torch.equal(again, (2 * torch.arange(512.0) + 2).expand(16_384, 512))


def test_does_not_reuse_memory_that_a_view_still_needs():
    view = product(4_096)[7:9]
    other = product(4_096, offset=5.0)
    assert torch.equal(view, 2 * torch.arange(512.0).expand(2, 512))
    assert torch.equal(other[0], 2 * torch.arange(512.0) + 10)


def test_forgets_what_is_beyond_the_limit_and_small_results():
    del_me = [product(16_384) for _ in range(3)]
    limit_result_memory(40 * MEBIBYTE)
    del_me.clear()
    assert kept_result_memory() == 32 * MEBIBYTE
    limit_result_memory(0)
    assert kept_result_memory() == 0
    product(8)
    assert kept_result_memory() == 0


def test_a_result_can_be_resized_copied_and_sent_like_any_tensor():
    out = product(4_096)
    assert torch.equal(out.clone(), out)
    assert out.untyped_storage().nbytes() == out.numel() * 4
    shared = product(4_096).share_memory_()
    assert shared.is_shared()
    out.resize_(10)
    assert out.shape == (10,)


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), (1.5, TypeError)])
def test_refuses_a_limit_that_is_none(size, error):
    with pytest.raises(error):
        limit_result_memory(size)


@pytest.mark.parametrize("given", ["-1", "many", "1.5"])
def test_refuses_an_environment_variable_that_is_not_a_number(given):
    done = subprocess.run(
        [sys.executable, "-c", "import equigeo.ops"],
        env={**os.environ, "EQUIGEO_RESULT_MEMORY": given},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert f"EQUIGEO_RESULT_MEMORY must be a whole number of MiB, got '{given}'" in done.stderr
