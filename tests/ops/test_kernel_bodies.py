"""Which ops have which kernels, read from the C++ sources."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from equigeo.ops import kernels_info, runs_compiled
from equigeo.ops.runtime.declare import SCHEMAS

ROOT = Path(__file__).parents[2]
# Its body is made of PyTorch's matrix products and eigenvectors, on every device.
WITHOUT_KERNELS = {"principal_axes_nd"}
# Elsewhere this convolution is made of PyTorch's matrix product, and its batch norm is taken;
# second derivatives of connected products are made of these and their gradients.
OF_THE_CPU = {
    *(
        name + suffix
        for name in ("attention_conv", "relu_batch_norm")
        for suffix in ("", "_backward")
    ),
    "copywise_product_double_backward",
    "fully_connected_product_double_backward",
}
# Where Python asks for a device: for what is no kernel, with the reason.
ASKS_FOR_A_DEVICE = {
    "equigeo/groups/algebra.py": "the meta device has no automatic types",
    "equigeo/ops/runtime/declare.py": "a meta tensor among others is refused",
    "equigeo/ops/runtime/library.py": "which library has which op",
    "equigeo/ops/first_use.py": "kernels are tested on a card before their first use",
    "equigeo/interop/accelerated/base.py": "lengths are read on the CPU alone",
    "equigeo/nn/tables.py": "what was kept on the CPU goes to where modules are made",
    "equigeo/points/search.py": "torch-cluster is used on the CPU alone",
    "equigeo/tensor_products/analysis/compare.py": "a GPU is waited for before a clock is read",
    "equigeo/training/checkpoint.py": "files hold tensors of the CPU",
}


def registered(folder: str) -> dict[str, str]:
    """Ops by name, with the device that a source of the folder registers them for."""
    found: dict[str, str] = {}
    for path in (ROOT / "csrc/register" / folder).glob("*.cpp"):
        text = path.read_text("utf-8")
        device = re.findall(r"STABLE_TORCH_LIBRARY_IMPL\(equigeo, (\w+), library\)", text)
        found |= dict.fromkeys(re.findall(r'library\.impl\(\s*"(\w+)"', text), ", ".join(device))
    return found


def test_every_op_has_kernels_for_the_cpu_and_most_for_cuda():
    of_both = set(SCHEMAS) - WITHOUT_KERNELS - OF_THE_CPU
    assert registered("") == dict.fromkeys(of_both, "EQUIGEO_DEVICE")
    assert registered("cpu") == dict.fromkeys(OF_THE_CPU, "CPU")
    assert not registered("cuda")


def test_kernels_of_both_devices_have_the_same_names():
    sources = {
        device: {path.stem for path in (ROOT / "csrc/kernels" / device).iterdir()}
        for device in ("cpu", "cuda")
    }
    for op in registered(""):
        stem = re.sub("(_double)?_backward$", "", op).replace("radial_conv", "channelwise_conv")
        assert stem in sources["cpu"] & sources["cuda"], op


def test_no_layer_chooses_kernels_by_device():
    asked = re.compile(r"is_cuda\b|is_cpu\b|device\.type [!=]= |\.device ==? torch\.device")
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "equigeo").rglob("*.py")
        if asked.search(path.read_text("utf-8"))
    }
    assert found == set(ASKS_FOR_A_DEVICE)


CPU, META = torch.device("cpu"), torch.device("meta")
needs_kernels = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")


def test_products_are_compiled_on_the_cpu_with_and_without_a_library():
    assert runs_compiled("copywise_product", CPU)
    assert runs_compiled("fully_connected_product", CPU)
    code = """
import torch, equigeo.ops as ops
assert ops.kernels_info()["cpu"] is None
assert ops.runs_compiled("copywise_product", torch.device("cpu"))
"""
    subprocess.run(
        [sys.executable, "-c", code],
        env={"EQUIGEO_KERNELS": "0", "PATH": ""},
        cwd=Path(__file__).parents[2],
        check=True,
    )


@needs_kernels
def test_an_op_that_is_not_compiled_says_so():
    assert {name for name in SCHEMAS if not runs_compiled(name, CPU)} == {"principal_axes_nd"}


def test_no_op_is_compiled_for_a_device_without_a_library():
    assert not any(runs_compiled(name, META) for name in SCHEMAS)


def test_the_answer_is_a_constant_under_compile():
    def choose(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if runs_compiled("copywise_product", x.device) else x - 1

    compiled = torch.compile(choose, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(())) == 1


def test_an_unknown_op_is_named():
    with pytest.raises(ValueError, match="op_name must be an op of equigeo, got 'product'"):
        runs_compiled("product", CPU)
