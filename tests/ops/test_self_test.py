"""Which ops have which kernels, and their tests on demand."""

import math
import re
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from equigeo import tensor_products as tp
from equigeo.ops import check_ops, kernels_info, runs_compiled, self_test
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.tape import Signature
from equigeo.ops.self_test import Deviation, worst_deviation
from equigeo.ops.self_test_cases import COUPLED, Case, all_cases, coupled_table
from equigeo.tensor_products.path_tables import StoredTable
from tests.ops.simulated import ROOT

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
# Harmonics of MACE and of SevenNet.
SPHERE, EVEN = "0e+1o+2e+3o", "0e+1e+2e+3e"
# Where Python asks for a device: for what is no kernel, with the reason.
ASKS_FOR_A_DEVICE = {
    "equigeo/_core/tensors.py": "values on the CPU are read at once; autocast has types by device",
    "equigeo/affine/group_conv.py": "dense convolutions have another fast format on the CPU",
    "equigeo/cli/options.py": "threads are chosen for work on the CPU",
    "equigeo/graphs/backends.py": "a GPU has memory of its own",
    "equigeo/groups/algebra.py": "the meta device has no automatic types",
    "equigeo/ops/runtime/declare.py": "a meta tensor among others is refused",
    "equigeo/ops/runtime/library.py": "which library has which op",
    "equigeo/ops/first_use.py": "kernels are tested on a card before their first use",
    "equigeo/ops/run_time_kernels.py": "kernels are compiled for GPUs alone",
    "equigeo/interop/accelerated/base.py": "lengths are read on the CPU alone",
    "equigeo/nn/tables.py": "what was kept on the CPU goes to where modules are made",
    "equigeo/potentials/frozen.py": "splines are measured against networks on the CPU alone",
    "equigeo/points/neighbors.py": "minima of blocks are sorted first on the CPU alone",
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
        stem = re.sub("(_double)?_backward$", "", op)
        stem = re.sub("^(radial|spline)_conv$", "channelwise_conv", stem)
        assert stem in sources["cpu"] & sources["cuda"], op


def test_no_layer_chooses_kernels_by_device():
    asked = re.compile(r"is_cuda\b|is_cpu\b|device\.type [!=]= |\.device ==? torch\.device")
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "equigeo").rglob("*.py")
        if asked.search(path.read_text("utf-8"))
    }
    assert found == set(ASKS_FOR_A_DEVICE)


CPU = torch.device("cpu")
META = torch.device("meta")
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
        [sys.executable, "-c", code], env={"EQUIGEO_KERNELS": "0", "PATH": ""}, cwd=ROOT, check=True
    )


@needs_kernels
def test_an_op_that_is_not_compiled_says_so():
    assert {name for name in SCHEMAS if not runs_compiled(name, CPU)} == {"principal_axes_nd"}


def test_no_op_is_compiled_or_compared_for_a_device_without_a_library():
    assert {one.state for one in check_ops("meta")} == {"reference only"}
    with pytest.raises(ValueError, match="op_name must be an op of equigeo, got 'product'"):
        runs_compiled("product", CPU)
    assert not any(runs_compiled(name, META) for name in SCHEMAS)


def test_the_answer_is_a_constant_under_compile():
    def choose(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if runs_compiled("copywise_product", x.device) else x - 1

    compiled = torch.compile(choose, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(())) == 1


CASES = all_cases()


def test_every_op_that_has_kernels_has_one_case_which_is_whole_and_always_the_same():
    names = [case.op for case in CASES]
    assert len(names) == len(set(names))
    assert set(names) == set(SCHEMAS) - WITHOUT_KERNELS
    for case in CASES:
        names = Signature.parse(SCHEMAS[case.op]).arguments
        assert len(case.features) + len(case.rest) == len(names), case.op
        for x in case.features:
            assert x.dtype == torch.float64
            assert torch.equal(x, x.bfloat16().double())  # and of many numbers
            assert x.numel() < 3 or x.flatten().unique().numel() > 2, case.op
    for one, other in zip(CASES, all_cases(), strict=True):
        assert all(map(torch.equal, one.features, other.features))


@pytest.mark.parametrize(
    ("name", "irreps"),
    [
        ("mace small", ("128x0e", SPHERE, SPHERE)),
        ("mace small", ("128x0e", EVEN, EVEN)),  # SevenNet-l3i5
        ("mace medium", ("128x0e+128x1o", SPHERE, SPHERE)),
        ("mace large", ("128x0e+128x1o+128x2e", SPHERE, SPHERE)),
        ("nequip", ("32x0o+32x0e+32x1o+32x1e", "0e+1o", "0o+0e+1o+1e")),
        (
            "nequip 2",
            ("32x0o+32x0e+32x1o+32x1e+32x2o+32x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"),
        ),
        ("sevennet", ("128x0e+64x1e+32x2e", "0e+1e+2e", "0e+1e+2e")),
        ("sevennet-l3i5", ("128x0e+64x1e+32x2e+32x3e", EVEN, EVEN)),
        ("nequix", ("128x0e+64x1o+32x2e+32x3o", SPHERE, SPHERE)),
    ],
)
def test_known_tables_are_those_of_layers(name, irreps):
    layer = tp.ChannelwiseTensorProduct(*irreps)
    (stored,) = (part for part in layer.modules() if isinstance(part, StoredTable))
    got, expected = stored.for_dtype(torch.float64), coupled_table(*COUPLED[name], ir_mul=False)
    assert torch.equal(got.paths, expected.paths)
    assert torch.equal(got.entries, expected.entries)
    assert (got.dim_x, got.dim_y) == (expected.dim_x, expected.dim_y)


@needs_kernels
def test_every_op_with_a_kernel_passes():
    found = {one.op: one for one in check_ops()}
    assert found.keys() == SCHEMAS.keys()
    passed = {name for name, one in found.items() if one.state == "passed"}
    assert passed == SCHEMAS.keys() - WITHOUT_KERNELS
    assert sum(one.seconds for one in found.values()) < 30


@needs_kernels
def test_what_is_wrong_is_said(monkeypatch):
    wrong = Deviation("gather_sum", "result 0", 1.0, 0.1)
    monkeypatch.setattr(self_test, "worst_deviation", lambda case, device: wrong)
    assert all(one.state == "failed" for one in check_ops() if one.op not in WITHOUT_KERNELS)

    def broken(case, device):
        raise RuntimeError("no\nmemory")

    monkeypatch.setattr(self_test, "worst_deviation", broken)
    (one,) = (one for one in check_ops(torch.device("cpu")) if one.op == "gather_sum")
    assert (one.state, one.text) == ("failed", "gather_sum: no memory")


CASES_OF = {case.op: case for case in CASES}


def planted(monkeypatch: pytest.MonkeyPatch, mistake: float, dtype: torch.dtype, order: int):
    """An op whose result of one order is wrong by so much, in one dtype."""
    right = self_test._results

    def wrong(function, case: Case, features: tuple[Tensor, ...], rest, orders: int):
        found = right(function, case, features, rest, orders)
        if function is self_test.declared(case.op) and features[0].dtype == dtype:
            if len(found) > order:
                found[order][0].data.flatten()[-1].add_(mistake)
        return found

    monkeypatch.setattr(self_test, "_results", wrong)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_one_wrong_number_is_found_and_named(monkeypatch, order):
    planted(monkeypatch, 0.1, torch.float64, order)
    found = worst_deviation(CASES_OF["channelwise_conv"], CPU)
    assert not found.is_tolerated
    part = ("values", "first gradients", "second gradients")[order]
    assert str(found).startswith(f"channelwise_conv, result 0 of the {part} in float64: it differs")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_dtype_is_looked_at(monkeypatch, dtype):
    planted(monkeypatch, 1.0, dtype, 0)
    found = worst_deviation(CASES_OF["channelwise_product"], CPU)
    assert not found.is_tolerated
    assert str(dtype).removeprefix("torch.") in str(found)


@pytest.mark.parametrize("mistake", [math.nan, math.inf])
def test_what_is_no_number_is_not_tolerated(monkeypatch, mistake):
    planted(monkeypatch, mistake, torch.float32, 0)
    assert not worst_deviation(CASES_OF["gather_sum"], CPU).is_tolerated


def test_flags_are_compared_too(monkeypatch):
    right = self_test._results

    def wrong(function, case, features, rest, orders):
        found = right(function, case, features, rest, orders)
        if function is self_test.declared(case.op):
            found[0] = (*found[0][:1], ~found[0][1], *found[0][2:])
        return found

    monkeypatch.setattr(self_test, "_results", wrong)
    assert not worst_deviation(CASES_OF["axis_flags"], CPU).is_tolerated


def test_a_deviation_is_a_sentence():
    found = Deviation("gather_sum", "result 0 of the values in float32", 0.5, 1e-4)
    assert str(found) == (
        "gather_sum, result 0 of the values in float32: it differs from the reference "
        "implementation by 0.5, where 0.0001 is tolerated"
    )
    assert found.share == 5000
    assert not found.is_tolerated
