"""Memory of large results is kept, within a limit, and used again."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from equigeo.graphs import EdgeIndex
from equigeo.ops import (
    PathTable,
    channelwise_product,
    kept_result_memory,
    kernels_info,
    limit_result_memory,
)
from equigeo.tensor_products import ChannelwiseConv, ChannelwiseTensorProduct
from tests.ops.path_tables import channelwise_path
from tests.tier import tier

MEBIBYTE = 2**20
pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(kernels_info()["cpu"] is None, reason="memory is that of compiled ops"),
]


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


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize("conv", [False, True])
def test_large_gradients_have_the_same_bits_in_kept_memory(layout, conv):
    irreps, rows = ("33x0e+17x1o", "0e+1o+2e", "0e+1o+2e"), 16_384
    kind = ChannelwiseConv if conv else ChannelwiseTensorProduct
    layer = kind(*irreps, layout=layout)
    generator = torch.Generator().manual_seed(0)
    dims = layer.irreps_in1.dim, layer.irreps_in2.dim, layer.weight_numel
    counts = (rows // 4 if conv else rows, rows, rows)
    inputs = [
        torch.randn(count, dim, generator=generator).requires_grad_()
        for count, dim in zip(counts, dims, strict=True)
    ]
    ends = torch.randint(rows // 4, (2, rows), generator=generator)
    graph = (EdgeIndex.from_edges(ends, rows // 4, rows // 4),) if conv else ()

    def gradients() -> list[torch.Tensor]:
        out = layer(inputs[0], *graph, *inputs[1:])
        return list(torch.autograd.grad(out, inputs, torch.ones_like(out)))

    limit_result_memory(0)
    fresh = gradients()
    limit_result_memory(1024 * MEBIBYTE)
    del_me = gradients()
    assert del_me[2].numel() * 4 >= 8 * MEBIBYTE
    address = del_me[2].data_ptr()
    del del_me
    kept = gradients()
    assert kept[2].data_ptr() == address
    assert all(torch.equal(a, b) for a, b in zip(kept, fresh, strict=True))


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


def test_a_result_is_written_by_out_and_made_smaller_in_place():
    out = product(4_096)
    address = out.data_ptr()
    torch.add(out, 1, out=out)
    assert torch.equal(out[0], 2 * torch.arange(512.0) + 1)
    torch.arange(6, out=out.resize_(6))
    assert out.tolist() == [0, 1, 2, 3, 4, 5]
    assert out.data_ptr() == address


def test_a_result_is_made_larger_where_nothing_is_kept():
    with pytest.raises(RuntimeError, match="not resizable"):
        product(4_096).resize_(5_000, 512)
    limit_result_memory(0)
    out = product(4_096)
    assert torch.equal(out.resize_(5_000, 512)[0], 2 * torch.arange(512.0))
    assert torch.add(torch.ones(6_000, 512), 1, out=out.resize_(0)).shape == (6_000, 512)


def test_results_outlive_the_threads_that_made_them():
    made: list[torch.Tensor] = []
    threads = [
        threading.Thread(target=lambda k=k: made.append(product(4_096, offset=k))) for k in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(out[0, 0].item() for out in made) == [0, 2, 4]
    before = kept_result_memory()
    made.clear()
    assert kept_result_memory() == before + 3 * 8 * MEBIBYTE


# Two threads take and free results, and freeing happens while the memory is locked: most forks
# would leave the child without anyone to unlock it. A child of a process with threads must not
# start others: OpenMP's would wait for those of the parent.
FORKS = """
import os, signal, threading, torch
from equigeo.ops import limit_result_memory
from tests.ops.runtime.test_result_memory import product

torch.set_num_threads(1)
limit_result_memory(1)
done = False

def compute():
    while not done:
        product(4_096)

threads = [threading.Thread(target=compute) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(15):
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        os._exit(int(product(4_096)[0, 1].item() != 2))
    status = os.waitpid(child, 0)[1]
    if status != 0:
        os.write(1, f"a child hangs or fails, status {status}".encode())
        os._exit(1)
done = True
for thread in threads:
    thread.join()
"""


# GCC's address sanitizer does not release its own locks in a child.
@pytest.mark.threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_computes_though_its_parent_did_while_it_forked():
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("size", "error"), [(-1, ValueError), (1.5, TypeError), (2**63, ValueError)]
)
def test_refuses_a_limit_that_is_none(size, error):
    with pytest.raises(error):
        limit_result_memory(size)


GIVEN = ["-1", "many", "1.5", "²", str(2**43), "9" * 5000]


@pytest.mark.parametrize("given", tier(GIVEN[-1:], GIVEN))
def test_refuses_an_environment_variable_that_is_not_a_number(given):
    done = subprocess.run(
        [sys.executable, "-c", "import equigeo.ops"],
        env={**os.environ, "EQUIGEO_RESULT_MEMORY": given},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    message = f"must be a whole number of MiB below 2^43, got '{given[:40]}'"
    assert f"ValueError: EQUIGEO_RESULT_MEMORY {message}" in done.stderr
