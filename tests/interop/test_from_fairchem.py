"""Layers of fairchem-core, converted: ``make test-fairchem``."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from equigeo.interop import from_fairchem
from equigeo.nn import GaussianBasis, PolynomialCutoff
from equigeo.ops.edges.rotate_edges import rotate_edges
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import default_dtype, random
from tests.wrong_inputs import refused

LAYERS = "fairchem.core.models.uma"
MODULES = [
    *(f"nn.{name}" for name in ("so2_layers", "so3_layers", "activation", "layer_norm", "radial")),
    *(f"nn.{name}" for name in ("embedding", "mole", "execution_backends")),
    "common.so3",
    "common.rotation",
    "common.quaternion.wigner_d_hybrid",
    "common.quaternion.quaternion_wigner_utils",
]


@pytest.fixture(scope="module")
def library() -> SimpleNamespace:
    """Modules of layers, by name, without the rest of fairchem; skips where there are none."""
    folders = (Path(entry) / "fairchem" for entry in sys.path)
    folder = next((f for f in folders if (f / "core/models/uma/nn/so2_layers.py").exists()), None)
    if folder is None:
        pytest.skip("needs the layers of fairchem-core: make test-fairchem")
    for name, path in (("fairchem", folder), ("fairchem.core", folder / "core")):
        if name not in sys.modules:
            stand_in: Any = ModuleType(name)
            stand_in.__path__ = [str(path)]
            sys.modules[name] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what PyTorch has deprecated since
        return SimpleNamespace(**{
            name.rpartition(".")[2]: import_module(f"{LAYERS}.{name}") for name in MODULES
        })  # fmt: skip


class Frames:
    """Rotations of edges as fairchem makes them, by quaternions, reduced to orders."""

    def __init__(self, library: SimpleNamespace, vectors: Tensor, lmax: int, mmax: int) -> None:
        w = library.quaternion_wigner_utils.create_wigner_data_module(lmax=lmax, lmin=5)
        d, _ = library.wigner_d_hybrid.axis_angle_wigner_hybrid(
            vectors,
            lmax,
            gamma=torch.zeros(len(vectors), dtype=vectors.dtype),
            coeffs=w.coeffs,
            U_blocks=w.U_blocks,
            custom_kernels=w.custom_kernels,
        )
        full = library.so3.CoefficientMapping(lmax, lmax)
        self.mapping = library.so3.CoefficientMapping(lmax, mmax)
        self.reduced = d[:, full.coefficient_idx(lmax, mmax)]
        self.to_orders = torch.einsum("ij,ejk->eik", self.mapping.to_m.to(d), self.reduced)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Draw parameters without touching the global generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


DOUBLE = torch.float64
DEGREES = pytest.mark.parametrize(("lmax", "mmax"), [(2, 2), (3, 2), (4, 4)])
LAYOUTS = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
# A few hundred products in each output, of numbers of size one.
CLOSE = tolerance(DOUBLE, 1024)
MODULATED = {"internal_weights": False, "edge_channels_list": [7, 8, 8]}
DECIMALS = 5e-11  # half of the tenth, the last of the specification


def drawn(module: nn.Module, seed: int = 7) -> nn.Module:
    """In float64, with parameters that are all different."""
    module.double()
    with torch.no_grad():
        for k, parameter in enumerate(module.parameters()):
            parameter.add_(0.3 * random(*parameter.shape, seed=seed + k))
    return module


def directions(edges: int) -> Tensor:
    """Of any length, both poles among them."""
    vectors = random(edges, 3, seed=5)
    vectors[:2] = torch.tensor([[0.0, 1.5, 0.0], [0.0, -1.0, 0.0]], dtype=DOUBLE)
    return vectors


def graph(edges: int, nodes: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, nodes, (2, edges), generator=generator)


def so2_convolution(library: SimpleNamespace, lmax: int, mmax: int, **options: Any) -> nn.Module:
    mapping = library.so3.CoefficientMapping(lmax, mmax)
    with seeded():
        return library.so2_layers.SO2_Convolution(6, 4, lmax, mmax, mapping, **options)


def flat(x: Tensor, irreps: Any) -> Tensor:
    """Features of fairchem in the layout of irreps."""
    return irreps.with_layout("ir_mul").to_layout(x.flatten(1), irreps.layout)


@pytest.mark.parametrize(("lmax", "mmax", "sizes"), [(2, 2, [3, 2, 1]), (4, 2, [5, 4, 3])])
def test_order_of_components(library, lmax, mmax, sizes):
    x, vectors = random(5, (lmax + 1) ** 2, 3), directions(5).abs()
    frames = Frames(library, vectors, lmax, mmax)
    assert frames.mapping.m_size == sizes
    theirs, ours = frames.to_orders @ x, rotate_edges(x, vectors, mmax)
    # up to a roll about the edge: order 0, and lengths of the others
    torch.testing.assert_close(ours[:, : lmax + 1], theirs[:, : lmax + 1], **CLOSE)
    start = lmax + 1
    for size in sizes[1:]:
        pairs = [z[:, start : start + 2 * size].view(5, 2, size, 3) for z in (ours, theirs)]
        torch.testing.assert_close(*(z.square().sum(1) for z in pairs), **CLOSE)
        start += 2 * size


# Pairs of options: degrees, scalars beside the output, modulation, layout.
CONVOLUTIONS = [
    (2, 2, None, False, "mul_ir"),
    (2, 2, 5, True, "ir_mul"),
    (3, 2, None, True, "ir_mul"),
    (3, 2, 5, False, "mul_ir"),
    (4, 4, None, True, "mul_ir"),
    (4, 4, 5, False, "ir_mul"),
]


@pytest.mark.parametrize(("lmax", "mmax", "extra", "modulated", "layout"), CONVOLUTIONS)
def test_convolution(library, lmax, mmax, extra, modulated, layout):
    theirs = so2_convolution(
        library, lmax, mmax, extra_m0_output_channels=extra, **(MODULATED if modulated else {})
    )
    theirs = drawn(theirs)
    ours = from_fairchem(theirs, layout=layout)
    edges = 6
    x, vectors, features = random(edges, (lmax + 1) ** 2, 6), directions(edges), random(edges, 7)
    frames = Frames(library, vectors, lmax, mmax)
    given = [features] if modulated else []
    found = theirs(frames.to_orders @ x, *given)
    rotated, scalars = found if extra else (found, None)
    want = (frames.to_orders.mT @ rotated).flatten(1)
    want = want if scalars is None else torch.cat([scalars, want], 1)
    each = torch.arange(edges).expand(2, -1)
    out = ours(flat(x, ours.irreps_in), each, vectors, *given)
    torch.testing.assert_close(ours.irreps_out.to_layout(out, "ir_mul"), want, **CLOSE)


def test_numbers_of_the_specification(library):
    mapping = library.so3.CoefficientMapping(2, 2)
    theirs = library.so2_layers.SO2_Convolution(1, 1, 2, 2, mapping).double()
    numel = sum(p.numel() for p in theirs.parameters())
    values = torch.cos(2 * torch.arange(1, numel + 1, dtype=DOUBLE))
    nn.utils.vector_to_parameters(values, theirs.parameters())
    assert [tuple(p.shape) for p in theirs.parameters()] == [(3, 3), (3,), (4, 2), (2, 1)]
    x = torch.arange(1, 10, dtype=DOUBLE).sin()[None]
    r0 = torch.tensor([[0.36, 0.48, 0.80]], dtype=DOUBLE)
    want = [0.3651497771, 2.0654593760, -1.8669312158, -0.8051837877, -0.7369106802]
    want += [0.9234879203, 1.8740044146, 1.9564030713, -0.1430982461]
    found = from_fairchem(theirs)(x, torch.zeros(2, 1, dtype=torch.int64), r0)
    torch.testing.assert_close(found, torch.tensor([want], dtype=DOUBLE), rtol=0, atol=DECIMALS)


@LAYOUTS
def test_messages_of_uma_on_a_graph(library, layout):
    lmax, mmax, nodes, edges = 2, 2, 5, 14
    theirs = drawn(so2_convolution(library, lmax, mmax, **MODULATED))
    ours = from_fairchem(theirs, layout=layout, sources="both")
    edge_index, features = graph(edges, nodes), random(edges, 7)
    envelope = random(edges, seed=2).sigmoid()
    x = random(nodes, (lmax + 1) ** 2, 3)
    vectors = directions(edges).requires_grad_()
    frames = Frames(library, vectors, lmax, mmax)
    message = torch.cat([x[edge_index[0]], x[edge_index[1]]], 2)
    sent = frames.to_orders.mT @ theirs(frames.to_orders @ message, features)
    want = sent.new_zeros(nodes, 9, 4).index_add(0, edge_index[1], sent * envelope[:, None, None])
    out = ours(flat(x, ours.irreps_in), edge_index, vectors, features, envelope=envelope)
    out = ours.irreps_out.to_layout(out, "ir_mul").view(nodes, 9, 4)
    torch.testing.assert_close(out, want, **CLOSE)
    cotangent = random(nodes, 9, 4, seed=9)
    grads = [torch.autograd.grad((z * cotangent).sum(), vectors)[0] for z in (out, want)]
    # exact at the poles here, and by fairchem's quaternions
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("conversion", ["convert_so2_conv1", "convert_so2_conv2"])
def test_blocks_of_the_fast_path(library, conversion):
    first = conversion.endswith("1")
    options = MODULATED | {"extra_m0_output_channels": 5} if first else {}
    old = drawn(so2_convolution(library, 2, 2, **options))
    theirs = getattr(library.so2_layers, conversion)(old).double()
    for block in theirs.so2_m_conv:
        block._build_w_block()
    ours = from_fairchem(theirs)
    x, vectors = random(6, 9, 6), directions(6)
    frames = Frames(library, vectors, 2, 2)
    weights = [random(6, 6 * 6)] if first else []
    found = theirs(frames.to_orders @ x, *weights)
    rotated, extra = found if first else (found, found.new_zeros(6, 0))
    want = torch.cat([extra, (frames.to_orders.mT @ rotated).flatten(1)], 1)
    out = ours(x.flatten(1), torch.arange(6).expand(2, -1), vectors, *weights)
    torch.testing.assert_close(out, want, **CLOSE)


@DEGREES
def test_real_convolution_is_equivariant_under_reflections(library, lmax, mmax):
    mapping = library.so3.CoefficientMapping(lmax, mmax)
    with seeded():
        theirs = drawn(library.so2_layers.SO2_Linear(6, 4, lmax, mmax, mapping, False, [7, 8, 8]))
    theirs.mappingReduced.double()
    ours = from_fairchem(theirs)
    x, vectors, features = random(6, (lmax + 1) ** 2, 6), directions(6), random(6, 7)
    frames = Frames(library, vectors, lmax, mmax)
    want = frames.reduced.mT @ theirs(frames.reduced @ x, features)
    each = torch.arange(6).expand(2, -1)
    out = ours(x.flatten(1), each, vectors, features)
    torch.testing.assert_close(out, want.flatten(1), **CLOSE)

    def call(x: Tensor, vectors: Tensor) -> Tensor:
        return ours(x, each, vectors, features)

    rep = ours.conv.rep_in
    assert_equivariant(call, rep, ours.conv.rep_out, inputs=[x.flatten(1), vectors], condition=16.0)


@DEGREES
@LAYOUTS
def test_edge_degree_embedding(library, lmax, mmax, layout):
    backend = library.execution_backends.get_execution_backend("general")
    mapping = library.so3.CoefficientMapping(lmax, mmax)
    with seeded():
        theirs = drawn(
            library.embedding.EdgeDegreeEmbedding(
                3, lmax, mmax, [7, 8, 8], 5.0, mapping, None, backend
            )
        )
    ours = from_fairchem(theirs, layout=layout)
    nodes, edges = 5, 14
    edge_index, vectors, features = graph(edges, nodes), directions(edges), random(edges, 7)
    envelope = random(edges, seed=2).sigmoid()
    frames = Frames(library, vectors, lmax, mmax)
    back = frames.to_orders.mT * envelope[:, None, None]
    zero = torch.zeros(nodes, (lmax + 1) ** 2, 3, dtype=DOUBLE)
    want = theirs(zero, features, edge_index[1], back)
    out = ours(edge_index, vectors, features, envelope=envelope, num_nodes=nodes)
    torch.testing.assert_close(out, flat(want, ours.irreps_out), **CLOSE)
    refused("num_nodes must be given", ours, edge_index, vectors, features)


@LAYOUTS
@pytest.mark.parametrize("lmax", [0, 1, 2, 4])
def test_linear_and_gate(library, lmax, layout):
    theirs = drawn(library.so3_layers.SO3_Linear(4, 3, lmax))
    ours = from_fairchem(theirs, layout=layout)
    x, gates = random(6, (lmax + 1) ** 2, 4), random(6, lmax * 4, seed=1)
    found = ours(flat(x, ours.irreps_in))
    torch.testing.assert_close(found, flat(theirs(x), ours.irreps_out), **CLOSE)
    if lmax == 0:
        return
    theirs = library.activation.GateActivation(lmax, lmax, 4)
    ours = from_fairchem(theirs, layout=layout)
    given = torch.cat([x[:, 0], gates, x[:, 1:].flatten(1)], 1)
    given = ours.irreps_in.with_layout("ir_mul").to_layout(given, layout)
    torch.testing.assert_close(ours(given), flat(theirs(gates, x), ours.irreps_out), **CLOSE)


# Pairs of options: fairchem's layer_norm_sh divides by lmax.
NORMS = [
    ("layer_norm", 0, False, "component", "mul_ir"),
    ("layer_norm", 1, True, "norm", "ir_mul"),
    ("layer_norm", 3, True, "component", "ir_mul"),
    ("rms_norm_sh", 0, True, "norm", "ir_mul"),
    ("rms_norm_sh", 1, False, "component", "mul_ir"),
    ("rms_norm_sh", 3, False, "norm", "mul_ir"),
    ("layer_norm_sh", 1, False, "norm", "ir_mul"),
    ("layer_norm_sh", 3, True, "component", "mul_ir"),
    ("no centering", 2, True, "component", "mul_ir"),
]


@pytest.mark.parametrize(("name", "lmax", "affine", "normalization", "layout"), NORMS)
def test_norms(library, name, lmax, affine, normalization, layout):
    options = lmax, 4, 1e-3, affine, normalization
    rms_norm = library.layer_norm.EquivariantRMSNormArraySphericalHarmonicsV2
    with default_dtype(DOUBLE):  # of its table of degrees
        if name == "no centering":
            theirs = rms_norm(lmax, 4, centering=False)
        elif name == "rms_norm_sh" and normalization == "norm":  # which it allows of no other
            theirs = rms_norm(*options, std_balance_degrees=False)
        else:
            theirs = library.layer_norm.get_normalization_layer(name, *options)
    theirs = drawn(theirs)
    ours = from_fairchem(theirs, layout=layout)
    x = random(6, (lmax + 1) ** 2, 4)
    found = ours(flat(x, ours.irreps_in))
    torch.testing.assert_close(found, flat(theirs(x), ours.irreps_out), **CLOSE)


@pytest.mark.parametrize(("lmax", "mmax"), [(2, 2), (3, 2), (2, 1)])
def test_a_block_of_uma(library, lmax, mmax):
    nodes, edges, channels = 5, 14, 4
    mapping = library.so3.CoefficientMapping(lmax, mmax)
    make = library.so2_layers.SO2_Convolution
    with seeded():
        first = make(6, channels, lmax, mmax, mapping, False, [7, 8, 8], lmax * channels)
        second = make(channels, 3, lmax, mmax, mapping)
    first, second = drawn(first), drawn(second)
    gate = library.activation.GateActivation(lmax, mmax, channels, m_prime=True)
    edge_index, features = graph(edges, nodes), random(edges, 7)
    envelope, x = random(edges, seed=2).sigmoid(), random(nodes, (lmax + 1) ** 2, 3)
    vectors = directions(edges).requires_grad_()
    frames = Frames(library, vectors, lmax, mmax)
    message = torch.cat([x[edge_index[0]], x[edge_index[1]]], 2)
    inside, gates = first(frames.to_orders @ message, features)
    sent = frames.to_orders.mT @ second(gate(gates, inside)) * envelope[:, None, None]
    want = sent.new_zeros(nodes, *sent.shape[1:]).index_add(0, edge_index[1], sent).flatten(1)

    ours = from_fairchem(first, sources="both"), from_fairchem(gate), from_fairchem(second)
    each, flat_x = torch.arange(edges), x.flatten(1)
    pairs = torch.stack([edge_index[0], each])
    messages = ours[0]((flat_x, flat_x[edge_index[1]]), pairs, vectors, features)
    gates, scalars, others = messages.tensor_split([lmax * channels, (lmax + 1) * channels], 1)
    gated = ours[1](torch.cat([scalars, gates, others], 1))
    back = torch.stack([each, edge_index[1]])
    out = ours[2](gated, back, vectors, envelope=envelope, num_nodes=nodes)
    torch.testing.assert_close(out, want, **CLOSE)
    grads = [torch.autograd.grad((z * random(*z.shape)).sum(), vectors)[0] for z in (out, want)]
    # Frames of degree l turn by l times the angle of directions, these by the inverse of lengths
    # above 0.78; quaternions, gates and both convolutions amplify the rest.
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


def test_bases_and_envelope(library):
    radial = library.radial
    r = torch.linspace(0.01, 6.5, 50, dtype=DOUBLE)
    envelope = radial.PolynomialEnvelope(exponent=5)
    # Coefficients 1, 21, 35 and 15 cancel: up to 72 epsilon.
    torch.testing.assert_close(PolynomialCutoff(6.0, 5)(r), envelope(r / 6), rtol=0, atol=1e-14)
    assert envelope(torch.tensor(0.5, dtype=DOUBLE)).item() == 0.7734375
    gaussians = radial.GaussianSmearing(0.0, 6.0, 16, 2.0).double()
    found = GaussianBasis(6.0, 16, width=2.0)(r)
    # its width and centers are rounded to float32
    torch.testing.assert_close(found, gaussians(r), rtol=0, atol=1e-5)


def test_dtype_training_and_gradients_stay_and_the_module_is_not_changed(library):
    theirs = so2_convolution(library, 2, 1, **MODULATED).eval()
    theirs.fc_m0.requires_grad_(False)
    theirs.so2_m_conv.requires_grad_(False)
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    ours = from_fairchem(theirs)
    assert {p.dtype for p in ours.parameters()} == {torch.float32}
    assert not ours.training
    assert not ours.conv.training
    assert not ours.conv.mixing.requires_grad
    assert not ours.conv.bias.requires_grad
    assert all(p.requires_grad for p in ours.radial.parameters())
    edges = 6
    x, vectors, features = random(edges, 9, 6).float(), directions(edges).float(), random(edges, 7)
    each = torch.arange(edges).expand(2, -1)
    found = ours(x.flatten(1), each, vectors, features.float())
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, before[name])
    frames = Frames(library, vectors.double(), 2, 1)
    rotated = theirs.double()(frames.to_orders @ x.double(), features)
    want = (frames.to_orders.mT @ rotated).flatten(1).float()
    # In float32, of epsilon 1.2e-7, sums of 6 channels and 9 components: 1.2e-7 times 54 at most.
    torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
    linear = library.so3_layers.SO3_Linear(3, 2, 2).eval()
    linear.bias.requires_grad_(False)
    norm = library.layer_norm.EquivariantLayerNormArray(2, 3).eval()
    norm.affine_weight.requires_grad_(False)
    layers = from_fairchem(linear), from_fairchem(norm)
    flags = [(layer.weight.requires_grad, layer.bias.requires_grad) for layer in layers]
    assert flags == [(True, False), (False, True)]
    assert not any(layer.training for layer in layers)
    assert {p.dtype for layer in layers for p in layer.parameters()} == {torch.float32}


def test_experts_are_refused_until_merged(library):
    mole = library.mole
    tensors = mole.MOLEGlobals(torch.full((1, 3), 1 / 3), torch.tensor([4]))
    theirs = so2_convolution(library, 2, 2)
    theirs.fc_m0 = mole.MOLE(3, 18, 12, tensors, bias=True)
    refused("whose fc_m0 is a MOLE: expected a Linear", from_fairchem, theirs, error=TypeError)
    with pytest.raises(TypeError, match="merge its experts by merged_linear_layer"):
        from_fairchem(theirs.fc_m0)
    theirs.fc_m0 = theirs.fc_m0.merged_linear_layer()
    assert type(from_fairchem(theirs)).__name__ == "SO2Conv"


def test_what_has_no_counterpart_is_named(library):
    activation, norms = library.activation, library.layer_norm
    cases = {
        "train equigeo.tensor_products.S2SwiGLU": activation.S2Activation(2, 2, None),
        "it is a part of SO2_Convolution": library.so2_layers.SO2_m_Conv(1, 2, 2, 2, 2),
        "no model of fairchem uses it": norms.EquivariantRMSNormArraySphericalHarmonics(2, 4),
        "std_balance_degrees=False": norms.EquivariantRMSNormArraySphericalHarmonicsV2(
            2, 4, std_balance_degrees=False
        ),
    }
    for message, module in cases.items():
        refused(message, from_fairchem, module, error=(TypeError, ValueError))
    with pytest.raises(ValueError, match='sources="both" is for convolutions, got SO3_Linear'):
        from_fairchem(library.so3_layers.SO3_Linear(2, 2, 1), sources="both")
    odd = library.so2_layers.SO2_Convolution(3, 2, 1, 1, library.so3.CoefficientMapping(1, 1))
    refused("even number of channels in the message, got 3", from_fairchem, odd, sources="both")


def test_other_classes_are_refused():
    with pytest.raises(TypeError, match="expected a layer of fairchem-core 2: SO3_Linear"):
        from_fairchem(nn.Linear(2, 2))
    refused('sources must be "source" or "both"', from_fairchem, nn.Linear(2, 2), sources="all")
    refused('layout must be "mul_ir" or "ir_mul"', from_fairchem, nn.Linear(2, 2), layout="mul")
