"""A package of AOTInductor runs in a process that has the library of kernels and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from equigeo.ops import kernels_info
from equigeo.tensor_products import ChannelwiseTensorProduct, SymmetricContraction

LIBRARY = kernels_info()["cpu"]
needs_kernels = pytest.mark.skipif(LIBRARY is None, reason="no compiled kernels")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")

RUN = """
import sys, torch
library, package, expected = sys.argv[1:]
torch.ops.load_library(library)
run = torch._inductor.aoti_load_package(package)
inputs, want = torch.load(expected)
torch.testing.assert_close(run(*inputs), want)
assert not any(name.split(".")[0] == "equigeo" for name in sys.modules)
"""


class Layers(nn.Module):
    """Two layers, whose ops take optional tensors, numbers and lists of them."""

    def __init__(self) -> None:
        super().__init__()
        irreps = "8x0e + 8x1o"
        self.product = ChannelwiseTensorProduct(irreps, "0e + 1o", "0e", shared_weights=True)
        self.contraction = SymmetricContraction(irreps, "8x0e", 2, num_elements=3)

    def forward(self, x: Tensor, y: Tensor, element: Tensor) -> Tensor:
        return self.product(x, y)[:, :8] + self.contraction(x, element)


@needs_kernels
@needs_compiler
@pytest.mark.filterwarnings("ignore")  # inductor's own
def test_a_package_runs_with_nothing_but_the_library(tmp_path):
    layers = Layers().eval()
    inputs = (torch.randn(5, 32), torch.randn(5, 4), torch.tensor([0, 2, 1, 1, 0]))
    with torch.no_grad():
        want = layers(*inputs)
        program = torch.export.export(layers, inputs)
        package = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "layers.pt2")
        )
    torch.save((inputs, want), tmp_path / "expected.pt")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, LIBRARY, package, str(tmp_path / "expected.pt")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
