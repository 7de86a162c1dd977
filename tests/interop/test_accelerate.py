import copy
import inspect
import re
import sys
from functools import partial
from importlib import import_module, metadata

import pytest
import torch
from e3nn.nn import BatchNorm
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize

from equigeo._core.tensors import HOOKS, has_hooks
from equigeo.interop import AccelerationReport, accelerate, restore
from equigeo.interop.accelerated import layers as accelerated_harmonics
from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.accelerated.edges import AcceleratedConvolution
from equigeo.interop.accelerated.layers import AcceleratedLinear
from equigeo.interop.accelerated.product import _expand as expand_couplings
from equigeo.interop.certificate import ORDERS, derivatives
from equigeo.reps import wigner_3j
from equigeo.testing import tolerance
from tests.architecture.source import REPOSITORY
from tests.filled_later import filled_later
from tests.interop.e3nn_modules import (
    BUILDERS,
    accelerated_copy,
    assert_same_derivatives,
    build,
    double_precision,
    inputs,
    mixed,
    o3,
    random,
    seeded,
)
from tests.interop.library_stand_ins import (
    CONTRACTERS,
    EDGES,
    NODES,
    POINTS_CONVOLUTIONS,
    InteractionBlock,
    OlderBlock,
    TensorProductScatter,
    contraction,
    convolution,
    convolution_inputs,
    edges,
    points_convolution,
    stand_in,
    strided,
)
from tests.tier import FULL, tier
from tests.wrong_inputs import refused

pytestmark = [
    # The module "no paths": e3nn takes it without a word, and so does who accelerates it.
    pytest.mark.filterwarnings("ignore:TensorProduct needs a path to its output:UserWarning")
]

# Second derivatives of a thousand slopes, each a sum over rows and channels.
EXACT = tolerance(torch.float64, terms=2**14)
names = pytest.mark.parametrize("name", BUILDERS)


class Model(nn.Module):
    """A few modules of e3nn, some deep inside, and some that are none of e3nn."""

    def __init__(self) -> None:
        super().__init__()
        self.harmonics = o3.SphericalHarmonics("0e+1o+2e", True, "component")
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "product": o3.FullyConnectedTensorProduct(
                        "4x0e+3x1o", "0e+1o+2e", "4x0e+3x1o+2x1e"
                    ),
                    "linear": o3.Linear("4x0e+3x1o+2x1e", "4x0e+3x1o", biases=True),
                }
            )
            for _ in range(2)
        )
        self.readout = nn.Linear(13, 1)

    def forward(self, x, vectors):
        attributes = self.harmonics(vectors)
        for block in self.blocks:
            x = x + block["linear"](block["product"](x, attributes))
        return self.readout(x).squeeze(-1)


def model():
    with seeded(3):
        return Model()


def data():
    return random(6, 13).requires_grad_(), random(6, 3, seed=1).requires_grad_()


@names
def test_module_computes_the_same_to_second_gradients_and_keeps_its_attributes(name):
    theirs = build(name)
    ours = copy.deepcopy(theirs)
    attributes, parameters = dict(vars(ours)), dict(ours.named_parameters())
    state = list(ours.state_dict())
    report = accelerate(ours)
    assert [note.path for note in report.replaced] == [""]
    assert not report.kept
    assert isinstance(ours, type(theirs))
    assert isinstance(ours, Accelerated)
    assert list(ours.state_dict()) == state
    assert dict(ours.named_parameters()) == parameters
    for attribute in (
        "irreps_in1 irreps_in2 irreps_in irreps_out weight_numel instructions "
        "output_mask internal_weights shared_weights"
    ).split():
        if hasattr(type(theirs), attribute) or attribute in attributes:
            assert getattr(ours, attribute) is attributes[attribute]
    assert type(ours.irreps_out) is o3.Irreps
    arguments = [x.requires_grad_() for x in inputs(theirs)]
    if theirs(*arguments).numel() and name != "no paths":
        assert_same_derivatives(ours, theirs, arguments, **EXACT)
    else:
        torch.testing.assert_close(ours(*arguments), theirs(*arguments), **EXACT)


def test_a_model_is_accelerated_wherever_its_modules_are_and_once():
    theirs, state = model(), torch.get_rng_state()
    ours, report = accelerated_copy(theirs)
    assert torch.get_rng_state().equal(state)
    paths = ["harmonics"]
    paths += [f"blocks.{k}.{name}" for k in range(2) for name in ("product", "linear")]
    assert [note.path for note in report.replaced] == paths
    assert type(ours.readout) is nn.Linear
    assert_same_derivatives(ours, theirs, data(), **EXACT)
    again = accelerate(ours)
    assert not again.replaced
    kept = [(note.path, note.note) for note in again.kept]
    assert kept == [(path, "is accelerated already") for path in paths]


TURNED = {
    "channelwise": lambda: o3.TensorProduct(
        "4x1o+4x2e", "2e", "4x2o", [(0, 0, 0, "uvu", True)], shared_weights=False
    ),
    "fully connected": lambda: o3.FullyConnectedTensorProduct("2x1o", "3x2e", "2x2o+2x1o"),
    "elementwise": lambda: o3.ElementwiseTensorProduct("4x1o", "4x2e", ["2o"]),
    "full": lambda: o3.FullTensorProduct("2x1o", "3x2e", ["2o"]),
}


@pytest.mark.parametrize("name", [*TURNED, "convolution", "gate_points"])
def test_a_state_with_couplings_of_other_signs_is_followed(name, monkeypatch):
    stand_in(monkeypatch)
    with double_precision():
        product = TURNED.get(name, TURNED["channelwise"])()
    theirs, arguments = product, inputs(product)
    if name == "convolution":
        theirs, arguments = TensorProductScatter(product), convolution_inputs(product)
    elif name == "gate_points":
        theirs, arguments = points_convolution()
    ours, _ = accelerated_copy(theirs)
    state = {key: value.clone() for key, value in theirs.state_dict().items()}
    turned = [key for key in state if "_w3j_1_2_2" in key]
    assert turned
    for key in turned:
        state[key] = -state[key]
    before = ours(*arguments)
    for module in (theirs, ours):
        module.load_state_dict(state, strict=True)
    torch.testing.assert_close(ours(*arguments), theirs(*arguments), **EXACT)
    assert not torch.allclose(ours(*arguments), before)


def test_casts_reach_the_tables():
    ours, theirs = model(), model()
    accelerate(ours)
    ours.float().double()
    x, vectors = data()
    expected = theirs.float().double()(x, vectors)
    # Tables of e3nn are rounded to float32, of epsilon 1.2e-7, those here are not.
    torch.testing.assert_close(ours(x, vectors), expected, rtol=1e-6, atol=1e-6)
    single = ours.float()(x.float(), vectors.float())
    assert single.dtype == torch.float32


def test_a_model_on_the_meta_device_is_accelerated_and_filled_later(monkeypatch):
    stand_in(monkeypatch)
    theirs = model()
    ours = nn.ModuleDict(
        {"model": copy.deepcopy(theirs), "tables": contraction("2x0e", "2x0e", 2, 1)[0]}
    )
    report = accelerate(ours.to("meta"))
    assert [tuple(note) for note in report.kept] == [
        ("tables", "SymmetricContraction", "its tensors are on the meta device")
    ]
    assert {value.device.type for value in ours.buffers()} == {"meta"}
    filled = ours["model"].to_empty(device="cpu")
    filled.load_state_dict(theirs.state_dict(), strict=True)
    torch.testing.assert_close(filled.harmonics(data()[1]), theirs.harmonics(data()[1]), **EXACT)


@pytest.mark.parametrize("kind", ["running", "batch"])
def test_an_accelerated_batch_norm_comes_back_from_the_meta_device(kind):
    norm = BatchNorm("3x0e+2x1o").double().train(kind == "batch")
    accelerate(norm)
    x = random(5, 9)
    assert torch.equal(filled_later(norm)(x), norm(x))


def test_harmonics_take_fake_vectors_and_vectors_without_values_as_before():
    harmonics = build("harmonics")
    accelerate(harmonics)
    assert harmonics(torch.empty(4, 3, device="meta")).shape == (4, 25)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert harmonics(random(4, 3)).shape == (4, 25)


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-13, 1e-12, 3e-12, 1e-6, 1.0, 1e60, 1e160])
def test_vectors_of_any_length_are_normalized_as_before(length, monkeypatch):
    theirs = o3.SphericalHarmonics([0, 1, 2], True, "component")
    ours, _ = accelerated_copy(theirs)
    slow, original = [], accelerated_harmonics.normalize
    monkeypatch.setattr(
        accelerated_harmonics, "normalize", lambda x, dim: slow.append(x) or original(x, dim=dim)
    )
    sizes = torch.tensor([[1.0], [1.0], [length], [1.0]], dtype=torch.float64)
    x = torch.nn.functional.normalize(random(4, 3)) * sizes
    found = [derivatives(module, [x], [], torch.clone) for module in (ours, theirs)]
    for order, name in enumerate(ORDERS):
        scale = sizes.clamp(min=1e-12) ** order  # each derivative divides by the length
        for got, want in zip(*(values[name] for values in found), strict=True):
            torch.testing.assert_close(got * scale, want * scale, **EXACT, equal_nan=True)
    # Lengths that e3nn replaces by 1e-12, with a margin, and those whose square is infinite.
    assert bool(slow) == (length < 2e-12 or length > 1e154)


@pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own tracing
def test_an_accelerated_model_is_compiled_and_exported_in_one_graph():
    ours = model()
    accelerate(ours)
    x, vectors = (value.detach() for value in data())
    expected = ours(x, vectors)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, vectors), expected, **EXACT)
    exported = torch.export.export(ours, (x, vectors)).module()
    torch.testing.assert_close(exported(x, vectors), expected, **EXACT)


def test_a_shared_module_is_accelerated_once_and_in_all_places():
    linear = build("linear")
    both = nn.ModuleList([linear, linear])
    report = accelerate(both)
    assert [note.path for note in report.replaced] == ["0"]
    assert both[1] is both[0]


def test_hooks_are_called_as_before():
    calls = []
    linear = build("linear")
    linear.register_forward_pre_hook(lambda module, args: calls.append("before"))
    linear.register_forward_hook(lambda module, args, out: out * 2)
    expected = linear(*inputs(linear))
    report = accelerate(linear)
    assert len(report.replaced) == 1
    torch.testing.assert_close(linear(*inputs(linear)), expected, **EXACT)
    assert calls == ["before"] * 2


def test_other_methods_still_see_the_weights():
    product = build("fully connected")
    views = [view.clone() for view in product.weight_views()]
    accelerate(product)
    for got, want in zip(product.weight_views(), views, strict=True):
        assert got.equal(want)
    with torch.no_grad():
        product.weight.zero_()
    assert not product(*inputs(product)).any()


GATES = {
    "gated": ("4x0o+3x0e", [torch.tanh, torch.sigmoid], "2x0o+3x0e", [torch.tanh] * 2, "2x1e+3x1o"),
    "scalars alone": ("4x0e", [torch.nn.functional.silu], "", [], ""),
    "identity": ("4x0e+2x0o", [None, torch.abs], "3x0e", [None], "1x1o+2x2e"),
    "cut": ("", [], "2x0e+3x0o", [torch.sigmoid, torch.tanh], "4x1o+1x2e"),
    "module": ("4x0e", [nn.SiLU()], "2x0e", [nn.Sigmoid()], "2x1o"),
}


def gate(*problem):
    from e3nn.nn import Gate

    with double_precision():
        return Gate(*problem)


def gate_and_inputs(*problem):
    theirs = gate(*problem)
    return theirs, [random(5, theirs.irreps_in.dim)]


CONVOLUTION = "equigeo.ops.products.channelwise_conv"
STRIDED = "equigeo.ops.copywise_product"
CONTRACTIONS = [
    ("4x0e+4x1o", "4x0e+4x1o", 3, 2), ("3x0e+3x1o+3x2e", "3x1o", 2, 1), ("2x1o", "2x0e", 1, 3)
]  # fmt: skip
REPLACED = {
    **{
        f"gate, {name}": (partial(gate_and_inputs, *problem), {"": "equigeo.nn.Gate"})
        for name, problem in GATES.items()
    },
    **{
        f"contraction of order {problem[2]}": (
            partial(contraction, *problem),
            {"": "equigeo.tensor_products.SymmetricContraction"},
        )
        for problem in CONTRACTIONS
    },
    **{
        library: (partial(convolution, library), {path: CONVOLUTION})
        for library, path in (("nequip", ""), ("mace", "conv_tp"))
    },
    **{
        f"contracter, {name}": (partial(strided, "contracter", *problem), {"": STRIDED})
        for name, problem in CONTRACTERS.items()
    },
    "weighted channels": (partial(strided, "channels"), {"": STRIDED}),
    "sevenn": (
        partial(convolution, "sevenn"),
        {"layer": CONVOLUTION, "layer.weight_nn": "torch, with fewer steps"},
    ),
    **{
        version: (
            partial(points_convolution, version),
            {"": CONVOLUTION, "fc": "torch, with fewer steps"}
            | dict.fromkeys(inner, "equigeo.tensor_products.TensorProduct"),
        )
        for version, (inner, _) in POINTS_CONVOLUTIONS.items()
    },
}


@pytest.mark.parametrize(("make", "replaced"), REPLACED.values(), ids=REPLACED)
def test_gates_convolutions_and_contractions_compute_the_same(make, replaced, monkeypatch):
    stand_in(monkeypatch)
    theirs, arguments = make()
    ours, report = accelerated_copy(theirs)
    assert not report.kept
    assert {note.path: note.note for note in report.replaced} == replaced
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert_same_derivatives(ours, theirs, arguments, **EXACT)


def test_convolutions_of_hienet_are_those_of_sevennet(monkeypatch):
    stand_in(monkeypatch)
    module = sys.modules["sevenn.nn.convolution"]
    monkeypatch.delitem(sys.modules, "sevenn.nn.convolution")
    monkeypatch.setitem(sys.modules, "hienet.nn.convolution", module)
    theirs, arguments = convolution("sevenn")
    ours, report = accelerated_copy(theirs)
    assert {note.path: note.note for note in report.replaced} == REPLACED["sevenn"][1]
    assert_same_derivatives(ours, theirs, arguments, **EXACT)


@pytest.mark.filterwarnings("ignore:Linear needs a path to its output:UserWarning")
def test_a_linear_without_paths_takes_features_of_any_width():
    linear = o3.Linear("4x0e", "1o")  # as in dipole readouts of MACE, which pass no columns
    assert accelerate(linear).replaced
    for width in (4, 0):
        assert linear(torch.ones(5, width)).equal(torch.zeros(5, 3))


SHAPES = [(5, 22), (5, 3, 22), (2, 3, 2, 22)]
NORMS = {
    "as proposed": {},
    "norm": {"normalization": "norm", "eps": 0.1, "momentum": 0.5},
    "no parameters": {"affine": False},
    "no biases": {"include_bias": False},
}


def batch_norm(**options):
    if not set(options) <= set(inspect.signature(BatchNorm).parameters):
        pytest.skip("e3nn 0.4 has biases always")
    with double_precision():
        module = BatchNorm("3x0e+2x0o+2x1o+1x0e+2x2e", **options)
    for seed, value in enumerate([*module.parameters(), *module.buffers()]):
        value.data = random(*value.shape, seed=seed).exp()
    return module


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", NORMS.values(), ids=NORMS.keys())
def test_batch_norms_compute_the_same_and_follow_the_batch(options, training):
    for shape in tier([(5, 3, 22)] if options else SHAPES, SHAPES):
        theirs = batch_norm(**options).train(training)
        ours = copy.deepcopy(theirs)
        (note,) = accelerate(ours, verify=FULL or not options).replaced
        assert note.kind == "BatchNorm"
        for got, want in zip(ours.buffers(), theirs.buffers(), strict=False):
            assert got.equal(want)  # a comparison leaves running statistics as they were
        for n in range(3):
            assert_same_derivatives(ours, theirs, [2.0 + random(*shape, seed=n)], **EXACT)
            assert list(ours.state_dict()) == list(theirs.state_dict())
            for got, want in zip(ours.buffers(), theirs.buffers(), strict=False):
                torch.testing.assert_close(got, want, **EXACT)


@pytest.mark.parametrize("training", [True, False])
def test_batches_that_a_batch_norm_does_not_take_leave_its_statistics(training):
    theirs = batch_norm().train(training)
    for module in (theirs, accelerated_copy(theirs)[0]):
        for shape, error in (((0, 22), RuntimeError), ((3, 44), (AssertionError, RuntimeError))):
            with pytest.raises(error):
                module(torch.ones(shape, dtype=torch.float64))
        assert all(value.isfinite().all() for value in module.state_dict().values())


def in_bfloat16(module, *given):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return module.float()(*(value.float() for value in given))


CALLS = {
    "weights as a list": (
        "external",
        lambda module, *given: module(*given[:-1], list(module.weight_views(given[-1]))),
    ),
    "autocast": ("linear", in_bfloat16),
    "symbolic tracing": (
        "linear", lambda module, x: torch.fx.symbolic_trace(nn.Sequential(module))(x)
    ),
    "shared weights of another shape": (
        "linear, biases", lambda module, x: module(x, module.weight[None], module.bias[None])
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "call"), CALLS.values(), ids=CALLS)
def test_calls_that_kernels_do_not_take_run_as_before(name, call):
    theirs = build(name)
    ours, _ = accelerated_copy(theirs)
    given = inputs(theirs)
    torch.testing.assert_close(call(ours, *given), call(theirs, *given), **EXACT)


@pytest.mark.parametrize("name", ["channelwise", "linear, external"])
def test_missing_weights_are_an_error_as_before(name):
    module = build(name)
    accelerate(module)
    features = inputs(module)[:-1]
    refused("must be provided", module, *features, error=RuntimeError)


class OtherForward(o3.Linear):
    def forward(self, features, weight=None, bias=None):
        return 2 * super().forward(features, weight, bias)


class OtherWeights(o3.TensorProduct):
    def _get_weights(self, weight):
        return 2 * super()._get_weights(weight)


class OtherConstructor(o3.Linear):
    def __init__(self, mul):
        super().__init__(f"{mul}x0e", f"{mul}x0e")
        self.mul = mul


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def patched():
    module = build("linear")
    module.forward = lambda features: features
    return module


def parametrized():
    module = build("linear")
    parametrize.register_parametrization(module, "weight", Doubled())
    return module


def occupied():
    module = build("linear")
    module.example = 3
    return module


def other_couplings():
    module = build("fully connected")
    table = next(value for key, value in module.state_dict().items() if "_w3j_" in key)
    table.mul_(2)
    return module


def other_tensors():
    module, _ = contraction("4x0e+4x1o", "4x0e", 2, 2)
    module.contractions[0].U_matrix_2[0, 1] += 1.0
    return module


KEPT = {
    "one weight for all irreps": (
        lambda: strided("channels", False)[0],
        "has one weight for all irreps of a channel",
    ),
    "another forward": (lambda: OtherForward("2x0e", "3x0e"), "overrides forward of Linear"),
    "another method": (
        lambda: OtherWeights("2x0e", "1x0e", "2x0e", [(0, 0, 0, "uvu", True)]),
        "overrides _get_weights of TensorProduct",
    ),
    "patched": (patched, "has a forward of its own, set on the instance"),
    "parametrized": (parametrized, "is parametrized"),
    "occupied": (occupied, "has an attribute 'example', which acceleration would hide"),
    "factors": (
        lambda: o3.Linear("2x0e", "2x0e", f_in=3, f_out=4),
        "has f_in and f_out, which this library does not know",
    ),
    "other tables": (other_couplings, "relative error "),
    "other tensors": (other_tensors, "its tensors of order 2 are no equivariant couplings"),
    "a gate with parameters": (
        lambda: gate("4x0e", [nn.PReLU(dtype=torch.float64)], "", [], ""),
        "its activation PReLU has parameters or buffers",
    ),
    "norms of instances": (lambda: batch_norm(instance=True), "normalizes each instance alone"),
    "norms of the maximum": (lambda: batch_norm(reduce="max"), "reduces samples by their max"),
    "not compiled": (
        lambda: o3.FullyConnectedTensorProduct("0e", "0e", "0e", compile_left_right=False),
        "fails on an example: ",
    ),
}


def test_what_cannot_be_replaced_is_kept_with_the_reason(monkeypatch):
    stand_in(monkeypatch)
    module = nn.ModuleDict({"plain": build("linear")} | {name: KEPT[name][0]() for name in KEPT})
    before = {name: type(part) for name, part in module.items()}
    states = {name: list(part.state_dict()) for name, part in module.items()}
    report = accelerate(module)
    assert [note.path for note in report.replaced if note.path in module] == ["plain"]
    assert sorted(note.path for note in report.kept) == sorted(KEPT)
    for path, kind, note in report.kept:
        assert kind == before[path].__name__
        assert note.startswith(KEPT[path][1])
        assert type(module[path]) is before[path]
        assert list(module[path].state_dict()) == states[path]
        assert "accelerated" not in dict(module[path].named_children())


def test_a_subclass_that_is_only_constructed_differently_is_replaced():
    module = OtherConstructor(3)
    assert len(accelerate(module).replaced) == 1
    assert isinstance(module, OtherConstructor)
    assert isinstance(module, AcceleratedLinear)
    assert module.mul == 3


def test_torchscript_is_kept():
    with double_precision():
        product = o3.FullyConnectedTensorProduct("2x0e", "1o", "3x1o")
    from e3nn.util import jit

    module = nn.ModuleDict({"script": jit.script(product), "plain": build("linear")})
    report = accelerate(module)
    assert [note.path for note in report.replaced] == ["plain"]
    assert [tuple(note) for note in report.kept] == [
        ("script", "FullyConnectedTensorProduct", "is TorchScript")
    ]


def packaged(module, tmp_path):
    """The module as a torch.package brings it, with classes of its own."""
    path = tmp_path / "model.pt"
    with torch.package.PackageExporter(path) as exporter:
        exporter.intern("e3nn.**")
        for library in ("torch", "numpy", "opt_einsum", "opt_einsum_fx", "scipy", "sympy"):
            exporter.extern(f"{library}.**")
        exporter.extern(["packaging.**", "matplotlib.**", "io", "sys"])
        exporter.save_pickle("model", "model.pkl", module)
    return torch.package.PackageImporter(path).load_pickle("model", "model.pkl")


@pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own packages
def test_modules_of_a_package_are_replaced_as_all_others(tmp_path):
    if import_module("e3nn").__version__.startswith("0.4."):
        pytest.skip("e3nn 0.4 reads a file beside itself, which a package has not")
    names = ["fully connected", "channelwise", "linear, biases", "harmonics"]
    theirs = nn.ModuleList([build(name) for name in names])
    theirs.extend([gate(*GATES["gated"]), points_convolution()[0].fc])
    ours = packaged(theirs, tmp_path)
    assert all(type(part).__module__.startswith("<torch_package_") for part in ours)
    report = accelerate(ours)
    assert len(report.replaced) == len(theirs)
    assert not report.kept + report.unknown
    for part, want in zip(ours[: len(names)], theirs, strict=False):
        assert_same_derivatives(part, want, inputs(want), **EXACT)
    for part, want in zip(ours[len(names) :], theirs[len(names) :], strict=True):
        x = random(5, want.hs[0] if hasattr(want, "hs") else want.irreps_in.dim)
        torch.testing.assert_close(part(x), want(x), **EXACT)
    assert len(restore(ours)) == len(theirs)


class Mixer(nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.irreps_in = o3.Irreps("2x0e")
        self.inner = nn.ModuleList(inner)


def test_equivariant_modules_of_unknown_kind_are_named():
    from e3nn.nn import Activation

    module = nn.ModuleDict(
        {
            "known": Mixer(build("linear")),
            "kept": Mixer(OtherForward("2x0e", "3x0e")),
            "unknown": Mixer(Mixer(), nn.Linear(2, 2)),
            "plain": nn.ModuleList([nn.Linear(2, 2), Activation("2x0e", [torch.tanh])]),
        }
    )
    report = accelerate(module)
    note = "is equivariant and of no kind that is replaced"
    assert [tuple(each) for each in report.unknown] == [("unknown", "Mixer", note)]
    assert str(report).splitlines()[0] == "1 replaced, 1 kept, 1 unknown"
    assert str(report).splitlines()[-3:-1] == ["unknown", f"  unknown  Mixer  {note}"]
    assert "1 unknown" in repr(report)


def test_a_model_without_such_modules_is_left_alone():
    module = nn.Sequential(nn.Linear(2, 2), torch.jit.script(nn.Linear(2, 2)))
    assert accelerate(module) == AccelerationReport((), ())


@pytest.mark.parametrize("where", ["body_of", "install", "forward"])
def test_a_failure_leaves_the_model_as_it_was(where, monkeypatch):
    module = model()
    types = {path: type(part) for path, part in module.named_modules()}
    expected = module(*data())

    def fail(*args, **options):
        raise MemoryError("no memory")

    monkeypatch.setattr(AcceleratedLinear, where, fail)  # the second kind that is met
    refused("no memory", accelerate, module, error=MemoryError)
    assert {path: type(part) for path, part in module.named_modules()} == types
    assert not any(part._load_state_dict_post_hooks for part in module.modules())
    torch.testing.assert_close(module(*data()), expected, **EXACT)


@pytest.mark.parametrize("change", [accelerate, restore])
@pytest.mark.parametrize("wrong", [None, "model.pt", o3.Linear])
def test_what_is_no_module_is_refused(change, wrong):
    refused(r"model must be a torch\.nn\.Module, got", change, wrong, error=TypeError)


def test_the_report_reads_as_a_table():
    module = nn.ModuleDict(
        {"first": build("linear"), "second": OtherForward("0e", "0e"), "third": build("harmonics")}
    )
    assert str(accelerate(module)).splitlines() == [
        "2 replaced, 1 kept",
        "replaced",
        "  first  Linear              equigeo.nn.Linear",
        "  third  SphericalHarmonics  equigeo.tensor_products.SphericalHarmonics",
        "kept",
        "  second  OtherForward  overrides forward of Linear",
        "share of the step time: not measured, needs example=",
    ]
    assert "(the model)" in str(accelerate(build("linear")))
    assert str(AccelerationReport((), ())) == "0 replaced, 0 kept\nnothing was replaced"


class Clock:
    """Seconds that only :class:`Spend` adds to."""

    now = 0.0

    @classmethod
    def spend(cls, seconds):
        cls.now += seconds


class Spend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, before, after):
        Clock.spend(before)
        ctx.after = after
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Clock.spend(ctx.after)
        return gradient, None, None


class Slow(nn.Module):
    """Takes seconds in the forward and backward pass, and one before each inner module."""

    def __init__(self, before, after, *inner):
        super().__init__()
        self.seconds = before, after
        self.inner = nn.ModuleList(inner)

    def forward(self, x):
        for module in self.inner:
            x = module(Spend.apply(x, 1.0, 0.0))
        return Spend.apply(x, *self.seconds)


class Forces(nn.Module):
    """Runs the backward pass of a model, and nests its results."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, data):
        with torch.enable_grad():
            x = data["x"].requires_grad_()
            energy = self.model(x).sum()
            (gradient,) = torch.autograd.grad(energy, x)
        Clock.spend(2.0)
        return {"energy": energy, "results": [-gradient]}


def timed():
    """A Linear of 10 s, in a module of 1 + 2 + 6 s, in a module of 2 + 4 + 6 s."""
    linear = build("linear")
    linear.register_forward_pre_hook(lambda *args: Clock.spend(10.0))
    deep = Slow(2.0, 6.0, linear)
    slow = Slow(4.0, 6.0, nn.Sequential(nn.Dropout(), nn.Identity()), deep)
    return nn.Sequential(nn.BatchNorm1d(15), slow, BatchNorm("19x0e")).double()


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(
        import_module("equigeo.interop.accelerate"), "perf_counter", lambda: Clock.now
    )


@pytest.mark.parametrize("forces", [False, True])
def test_shares_of_the_step_time_are_those_of_both_passes(forces, clock):
    module, x = timed(), random(5, 15)
    example = ({"x": x},) if forces else (x,)
    prefix = "model." if forces else ""
    report = accelerate(Forces(module) if forces else module, example=example)
    total = 31.0 + 2.0 * forces
    assert report.share == pytest.approx(10.0 / total)
    found = {path: share * total for path, _, share in report.others if share}
    expected = {f"{prefix}1": 12.0, f"{prefix}1.inner.1": 9.0} | ({"": 2.0} if forces else {})
    assert found == pytest.approx(expected)
    assert all(0.0 <= share <= 1.0 for _, _, share in report.others)
    assert report.others[0].path == f"{prefix}1"
    text = f"{report.share:.0%} of the step time is in replaced modules, for a speed-up of at most"
    assert text in str(report)
    assert "step time of others" in str(report)
    assert f"{report.share:.0%} of the step time" in repr(report)


class OtherFullProduct(o3.FullyConnectedTensorProduct):
    def forward(self, x, y, weight=None):
        return super().forward(x, y, weight)


@pytest.mark.parametrize("kind", [o3.FullyConnectedTensorProduct, OtherFullProduct])
def test_the_largest_module_has_more_than_half_of_the_step_time(kind):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.large = kind("32x0e+32x1o", "16x0e+16x1o", "32x0e+32x1o")
            self.small = o3.Linear("32x0e+32x1o", "2x0e")

        def forward(self, x, y):
            return self.small(self.large(x, y))

    with double_precision():
        module = Both()
    report = accelerate(module, example=(random(64, 128), random(64, 64)))
    shares = {path: share for path, _, share in report.others}
    largest = report.share if kind is o3.FullyConnectedTensorProduct else shares["large"]
    assert largest > 0.5
    assert sum(shares.values(), report.share) == pytest.approx(1.0)


def test_measuring_changes_neither_model_nor_arguments(clock):
    module, x = timed(), random(5, 15)
    module[1].inner[0].register_full_backward_hook(lambda *args: None)
    module(x).sum().backward()
    before = copy.deepcopy(module)
    gradients = [parameter.grad.clone() for parameter in module.parameters()]
    random_state, data = torch.get_rng_state(), {"x": x.clone()}
    hooks = [{name: dict(getattr(m, name)) for name in HOOKS} for m in module.modules()]
    accelerate(Forces(module), example=(data,))
    assert torch.get_rng_state().equal(random_state)
    restore(module)
    assert hooks == [{name: dict(getattr(m, name)) for name in HOOKS} for m in module.modules()]
    for name, value in before.state_dict().items():
        assert value.equal(module.state_dict()[name])
    for parameter, gradient in zip(module.parameters(), gradients, strict=True):
        assert parameter.grad.equal(gradient)
    assert data.keys() == {"x"}
    assert data["x"].equal(x)
    assert not data["x"].requires_grad
    with torch.random.fork_rng():
        expected = before(x)
    assert module(x).equal(expected)


def test_a_model_without_replacements_has_shares(clock):
    report = accelerate(Slow(1.0, 1.0), example=(random(2).requires_grad_(),))
    assert report == AccelerationReport((), (), None, (), 0.0, (("", "Slow", 1.0),))
    assert str(report).splitlines()[1:] == [
        "nothing was replaced",
        "step time of others",
        "  (the model)  Slow  100%",
    ]


@pytest.mark.parametrize(
    ("example", "error", "message"),
    [
        ({"x": 1}, TypeError, r"must be a tuple .* got dict: write \(data,\)"),
        (
            (random(2, 3),),
            ValueError,
            "example fails on a copy of the model, nothing was replaced: ",
        ),
    ],
)
def test_a_wrong_example_leaves_the_model_as_it_was(example, error, message):
    module = build("linear")
    refused(message, accelerate, module, example=example, error=error)
    assert type(module) is o3.Linear
    assert not has_hooks(module)


def test_other_versions_of_a_library_are_warned_of_once(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: "0.7.1")
    untested = import_module("equigeo.interop.accelerate")._warn_untested
    untested.cache_clear()
    modules, message = (
        [build("linear"), build("linear")],
        r"tested with e3nn 0\.4 to 0\.6, got 0\.7\.1",
    )
    try:
        with pytest.warns(UserWarning, match=message) as found:
            accelerate(modules[0])
        assert [each.filename for each in found] == [__file__]
        accelerate(modules[1])  # a warning would be an error
    finally:
        untested.cache_clear()


def test_tested_versions_are_those_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text()
    for package, first, last in import_module("equigeo.interop.accelerate").TESTED.values():
        if package == "e3nn":
            bounds = re.search(
                r'"e3nn>=([\d.]+)\.\d,<([\d.]+)"', (REPOSITORY / "pyproject.toml").read_text()
            )
            assert bounds.groups() == (first, f"0.{int(last.split('.')[1]) + 1}")
        else:
            assert f"'{package}=={first}.*'" in makefile
            assert first == last


@pytest.fixture(params=["nequip", "mace"])
def pair(request, monkeypatch):
    """A convolution of a library, accelerated and as it was, and its arguments."""
    stand_in(monkeypatch)
    theirs, arguments = convolution(request.param)
    return accelerated_copy(theirs)[0], theirs, arguments


@pytest.mark.parametrize("library", ["nequip", "mace"])
def test_fused_convolutions_leave_other_dtypes_to_the_original(library, monkeypatch):
    stand_in(monkeypatch)
    theirs, arguments = convolution(library)
    ours, _ = accelerated_copy(theirs.bfloat16())
    arguments = [a.bfloat16() if a.is_floating_point() else a for a in arguments]
    torch.testing.assert_close(ours(*arguments), theirs(*arguments))


@pytest.mark.parametrize("pair", ["nequip", "mace", "sevenn"], indirect=True)
def test_compiled_and_traced_convolutions_hold_for_other_graphs(pair):
    ours, _, arguments = pair
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for order in (torch.arange(EDGES), torch.argsort(edges()[1], stable=True)):
        moved = [a[..., order] if a.dtype == torch.int64 else a for a in arguments]
        torch.testing.assert_close(compiled(*moved), ours(*moved), **EXACT)
    traced = make_fx(ours, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*arguments)
    more_nodes = torch.cat([arguments[0], arguments[0][:3]])
    fewer_edges = [a[..., :-4] if a.dtype == torch.int64 else a[:-4] for a in arguments[1:]]
    other = (more_nodes, *fewer_edges)
    torch.testing.assert_close(traced(*other), ours(*other), **EXACT)
    assert len(traced(*other)) == NODES + 3


def with_ends(arguments, source, target):
    ends = iter((target, source))
    if arguments[-1].ndim == 2:
        return [*arguments[:-1], torch.stack([source, target])]
    return [a if a.is_floating_point() else next(ends) for a in arguments]


def test_indices_of_every_kind_are_taken_as_before(pair):
    ours, theirs, arguments = pair
    source, target = edges()
    expected = theirs(*arguments)
    one_tensor = arguments[-1].ndim == 2  # as MACE has it
    short = (source.int(), target.int() if one_tensor else target)
    for ends in ((torch.where(source > 2, source - NODES, source), target), short):
        given = with_ends(arguments, *ends)
        assert_same_derivatives(ours, theirs, given, **EXACT)
        torch.testing.assert_close(ours(*given), expected, **EXACT)
    for wrong, name in (((source, target + 1), "targets"), ((source + 1, target), "sources")):
        given = with_ends(arguments, *wrong)
        with pytest.raises((RuntimeError, IndexError)):
            theirs(*given)
        with pytest.raises(IndexError, match=rf"{name} of edges must be in \[0, 5\), got \d to 5"):
            ours(*given)


def test_edges_are_sorted_once_and_again_where_they_change(monkeypatch):
    stand_in(monkeypatch)
    theirs, (x, y, weight, target, source) = convolution("nequip")
    ours, _ = accelerated_copy(theirs)
    target, source = target.clone(), source.clone()
    sorts, sort = [], torch.sort
    monkeypatch.setattr(torch, "sort", lambda *a, **k: sorts.append(a) or sort(*a, **k))

    def same(x=x):
        before = len(sorts)
        want = theirs(x, y, weight, target, source)
        torch.testing.assert_close(ours(x, y, weight, target, source), want, **EXACT)
        return len(sorts) == before

    with torch.inference_mode():
        same()
    weight.requires_grad_()
    assert same()
    ours(x, y, weight, target, source).sum().backward()
    assert not same(torch.cat([x, x]))  # more nodes
    assert same(torch.cat([x, x]))
    source[0] = target[1] = 0
    assert not same(torch.cat([x, x]))
    source.data[1] = 2  # as who writes into memory that numpy shares
    assert not same(torch.cat([x, x]))


def hooked():
    product = build("channelwise")
    product.register_forward_hook(lambda *args: None)
    return product


def test_a_convolution_that_cannot_be_fused_has_its_product_replaced(monkeypatch):
    stand_in(monkeypatch)
    reasons = {
        "hooks": "its product has hooks, which would not be called",
        "connection": "its paths do not all keep the channels of the first input",
        "own weights": "has weights of its own",
        "no product": "its product is a Linear",
    }
    products = hooked(), mixed(shared_weights=False), build("fully connected"), build("linear")
    parts = zip(reasons, map(TensorProductScatter, products), strict=True)
    module = nn.ModuleDict(dict(parts))
    report = accelerate(module)
    assert [note.path for note in report.replaced] == [f"{name}.tp" for name in reasons]
    for note in report.kept:
        assert reasons[note.path] in note.note
        assert type(module[note.path]) is TensorProductScatter


def test_a_block_of_mace_that_cannot_be_fused_has_its_product_replaced(monkeypatch):
    stand_in(monkeypatch)
    in_use, shared = (InteractionBlock(build("channelwise")) for _ in range(2))
    in_use.conv_fusion = "atomic"
    shared.also = nn.ModuleList([shared.conv_tp])
    for block, reason in (
        (in_use, "conv_fusion is in use"),
        (shared, "its conv_tp is used elsewhere, too"),
        (OlderBlock(build("channelwise")), "its forward has no conv_fusion"),
        (InteractionBlock(hooked()), "its product has hooks"),
    ):
        report = accelerate(block)
        assert [note.path for note in report.replaced] == ["conv_tp"]
        assert not isinstance(block.conv_tp, AcceleratedConvolution)
        (note,) = report.kept
        assert note.note.startswith("gathers and scatters as before: " + reason)


def test_couplings_that_symmetrization_cancels_need_no_weights():
    cross = wigner_3j(1, 1, 1)[..., None]
    for noise in (0.0, torch.finfo(torch.float32).eps / 10):  # what MACE's own tables have left
        noisy = cross + noise * random(*cross.shape)
        assert expand_couplings(noisy, ((1, -1),), 2, (1, 1)).numel() == 0
    with pytest.raises(ValueError, match="order 2 are no equivariant couplings"):
        expand_couplings(cross + 1e-3 * random(*cross.shape), ((1, -1),), 2, (1, 1))


def test_a_contraction_follows_the_basis_of_a_state(monkeypatch):
    stand_in(monkeypatch)
    theirs, arguments = contraction("4x0e+4x1o", "4x0e", 2, 2)
    ours, _ = accelerated_copy(theirs)
    state = theirs.state_dict()
    state["contractions.0.U_matrix_2"] = state["contractions.0.U_matrix_2"].flip(-1) * 3
    before = ours(*arguments)
    for module in (ours, theirs):
        module.load_state_dict(state, strict=True)
    torch.testing.assert_close(ours(*arguments), theirs(*arguments), **EXACT)
    assert not torch.allclose(ours(*arguments), before)
