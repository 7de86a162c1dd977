"""Accelerated modules whose parts are replaced or watched later, against the originals."""

import copy
from functools import partial

import pytest
import torch
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate
from torch import Tensor, nn

from equigeo.interop.accelerated import edges, layers, product
from equigeo.interop.accelerated import strided as strided_layers
from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.accelerated.search import KINDS
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import accelerated_copy, build, inputs, o3, random, seeded
from tests.interop.library_stand_ins import (
    CONTRACTERS,
    POINTS_CONVOLUTIONS,
    contraction,
    convolution,
    points_convolution,
    stand_in,
    strided,
)

EXACT = tolerance(torch.float64, terms=2**14)
SILU = nn.functional.silu
FEW = "2x0e+1o", "1x0e", "0e+1o", "2x0e+1o"


def one(module):
    return module, inputs(module)


FIXED = edges.AcceleratedFixedConvolution
MODULES = {
    "linear": (layers.AcceleratedLinear, lambda: one(build("linear, biases"))),
    "product": (product.AcceleratedProduct, lambda: one(build("fully connected"))),
    "square": (
        product.AcceleratedSquare,
        lambda: (o3.TensorSquare("2x0e+1o", "3x0e+2x2e"), [random(7, 5)]),
    ),
    "external": (product.AcceleratedProduct, lambda: one(build("channelwise"))),
    "harmonics": (layers.AcceleratedHarmonics, lambda: one(build("harmonics"))),
    "harmonics, unsorted": (
        layers.AcceleratedHarmonics, lambda: one(build("harmonics, unsorted"))
    ),
    "gate": (
        layers.AcceleratedGate,
        lambda: one(Gate("4x0e+3x0e", [SILU, torch.abs], "2x0e", [torch.tanh], "2x1o")),
    ),
    "batch norm": (
        layers.AcceleratedBatchNorm, lambda: (BatchNorm("3x0e+2x1o"), [random(6, 9)])
    ),
    "batch norm, eval": (
        layers.AcceleratedBatchNorm, lambda: (BatchNorm("3x0e+2x1o").eval(), [random(6, 9)])
    ),
    "radial": (
        layers.AcceleratedRadialNetwork,
        lambda: (FullyConnectedNet([3, 4, 4, 2], SILU, 1, 2.0), [random(5, 3)]),
    ),
    "nequip": (edges.AcceleratedScatter, lambda: convolution("nequip")),
    "mace": (edges.AcceleratedConvolution, lambda: convolution("mace")),
    "sevenn": (edges.AcceleratedIrrepsConvolution, lambda: convolution("sevenn")),
    "allegro, channels": (strided_layers.AcceleratedWeightedChannels, lambda: strided("channels")),
    "allegro, contracter": (
        strided_layers.AcceleratedContracter,
        lambda: strided("contracter", *CONTRACTERS["all paths"]),
    ),
    "contraction": (
        product.AcceleratedContraction, lambda: contraction("2x0e+2x1o", "2x0e+2x1o", 2, 2)
    ),
    **{
        version: (kind, partial(points_convolution, version, *FEW))
        for version, kind in zip(
            POINTS_CONVOLUTIONS,
            (FIXED, FIXED, edges.AcceleratedAngleConvolution,
             edges.AcceleratedWeightedConvolution),
            strict=True,
        )
    },
}  # fmt: skip
names = pytest.mark.parametrize("name", MODULES)
OTHER_TEXT = {"component": "norm", "norm": "integral", "integral": "component", "mean": "max"}


@pytest.fixture
def pair(name, monkeypatch):
    stand_in(monkeypatch)
    kind, make = MODULES[name]
    with seeded(0):
        theirs, arguments = make()
    ours, report = accelerated_copy(theirs)
    assert report.replaced
    assert not report.kept
    assert any(isinstance(part, kind) for part in ours.modules())
    return ours, theirs, arguments


class Doubled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *arguments):
        return double(self.inner(*arguments))


def double(value):
    return value * 2 if isinstance(value, Tensor) else tuple(map(double, value))


def other(value):
    """Another value of the same kind, that the original can mostly compute with."""
    if isinstance(value, nn.ModuleList):
        return nn.ModuleList(map(other, value))
    if isinstance(value, nn.Module):
        return Doubled(value)
    if isinstance(value, (bool, str)):
        return OTHER_TEXT.get(value, "other") if isinstance(value, str) else not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, nn.Parameter):
        return nn.Parameter(value.detach() * 2)
    if isinstance(value, Tensor):
        return value * 2
    if value is None:
        return torch.tanh
    return value[::-1] if isinstance(value, (list, tuple)) else lambda *x: double(value(*x))


TABLES = ("U_matrix", "w3j", "_rtoi")
BOOKKEEPING = set(vars(nn.Module())) | {"__codegen__", "_profiling_str", "_prof_str"}


def replaceable(module):
    """Everything that can be set, but what compiled code keeps, and tables that are read once."""
    for path, part in module.named_modules():
        if isinstance(part, torch.fx.GraphModule):
            continue
        named = {**part._modules, **part._parameters, **part._buffers, **vars(part)}
        for attribute in named:
            if attribute not in BOOKKEEPING and not attribute.startswith(TABLES):
                yield path, attribute


def outcome(module, arguments):
    """What a call gives, and the state that it leaves."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        return module(*arguments).detach(), copy.deepcopy(module.state_dict())
    except Exception:
        return None, {}
    finally:
        for buffer, value in buffers:
            buffer.copy_(value)


def same(one, two):
    return (one is None) == (two is None) and (
        one is None or (one.shape == two.shape and torch.allclose(one, two, **EXACT))
    )


def assert_same(ours, theirs, arguments, what):
    """Compare two modules; return whether they compute."""
    (got, left), (want, expected) = outcome(ours, arguments), outcome(theirs, arguments)
    assert same(got, want), what
    assert all(same(left[key], value) for key, value in expected.items()), what
    return want


def test_every_accelerated_class_is_among_the_modules():
    every = {*KINDS.values(), edges.AcceleratedConvolution}
    assert {kind for kind, _ in MODULES.values()} == every


@names
def test_an_attribute_or_inner_module_that_is_replaced_counts_as_before(name, pair):
    ours, theirs, arguments = pair
    before = assert_same(ours, theirs, arguments, "nothing")
    counted = 0
    for path, attribute in replaceable(theirs):
        parts = [module.get_submodule(path) for module in (ours, theirs)]
        values = [getattr(part, attribute) for part in parts]
        for part, value in zip(parts, values, strict=True):
            setattr(part, attribute, other(value))
        after = assert_same(ours, theirs, arguments, (path, attribute))
        counted += not same(after, before)
        for part, value in zip(parts, values, strict=True):
            setattr(part, attribute, value)
    assert counted > 1
    assert assert_same(ours, theirs, arguments, "nothing again") is not None
    assert all(part.is_as_read() for part in ours.modules() if isinstance(part, Accelerated))


@names
def test_hooks_on_inner_modules_are_called_as_before(name, pair):
    ours, theirs, arguments = pair
    before = assert_same(ours, theirs, arguments, "nothing")
    called = 0
    for path in [path for path, _ in theirs.named_modules() if path]:
        calls = [], []
        handles = [
            module.get_submodule(path).register_forward_hook(
                lambda module, args, out, seen=seen: seen.append(1) or double(out)
            )
            for module, seen in zip((ours, theirs), calls, strict=True)
        ]
        after = assert_same(ours, theirs, arguments, path)
        for handle in handles:
            handle.remove()
        assert calls[0] == calls[1], path
        called += len(calls[1])
        assert bool(calls[1]) != same(after, before), path
    assert called or name.startswith(("harmonics", "batch norm", "allegro"))
    assert all(part.is_as_read() for part in ours.modules() if isinstance(part, Accelerated))


REPLACED = {
    "product": ("", "_compiled_main_left_right"),
    "harmonics, unsorted": ("", "_ls_list"),
    "gate": ("act_gates.acts.0", "cst"),
    "batch norm, eval": ("", "affine"),
    "radial": ("layer0", "act"),
    "v2106.points_convolution": ("", "tp"),
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_compiled_is_the_acceleration_until_something_is_replaced(name, pair):
    ours, theirs, arguments = pair
    accelerated = next(part for part in ours.modules() if isinstance(part, Accelerated))
    path, attribute = REPLACED[name]

    def unless_changed(*arguments):
        return ours(*arguments), torch.ones(1) if accelerated.is_as_read() else torch.zeros(1)

    torch.compiler.reset()  # recompilations are counted by code object
    compiled = torch.compile(unless_changed, fullgraph=True, backend="aot_eager")
    for expected in (1, 0):
        value, as_read = compiled(*arguments)
        torch.testing.assert_close(value, theirs(*arguments), **EXACT)
        assert as_read == expected
        for part in (module.get_submodule(path) for module in (ours, theirs)):
            setattr(part, attribute, other(getattr(part, attribute)))
