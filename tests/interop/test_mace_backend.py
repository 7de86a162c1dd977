"""Conformance of the kernel backend with the draft of MACE's protocol."""

import importlib
import itertools
import re
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from e3nn import o3
from torch.autograd import grad

from equigeo.interop.mace_backend import MaceBackend
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.draws import double_precision
from tests.wrong_inputs import refused

CLOSE = tolerance(torch.float64, terms=64)
LAYOUTS = ("mul_ir", "ir_mul")


@dataclass(frozen=True)
class Descriptor:
    """Attributes of MACE's descriptors: shapes without tensors."""

    precision: str = "float64"
    layout: str = "mul_ir"


def described(name, **values):
    fields = [(key, type(value), value) for key, value in values.items()]
    return make_dataclass(f"{name}Descriptor", fields, bases=(Descriptor,), frozen=True)()


DESCRIPTORS = {
    "linear": described(
        "Linear", irreps_in="4x0e+2x0e+3x1o+2x2e", irreps_out="5x0e+2x1o+3x0e+2x2e", has_bias=True
    ),
    "channelwise_tp_conv": described(
        "ChannelwiseTPConv", irreps_node="0e+1o", irreps_edge="0e+1o+2e+3o",
        irreps_out="0e+1o+2e+3o", num_radial=8, num_features=3,
    ),
    "symmetric_contraction": described(
        "SymmetricContraction", irreps_in="0e+1o+2e", irreps_out="0e+1o", correlation=3,
        num_elements=2, num_features=3, basis="reduced",
    ),
    "fully_connected_tp": described(
        "FullyConnectedTP", irreps_in1="4x0e+2x0e+3x1o", irreps_in2="2x0e+1x0e",
        irreps_out="5x0e+2x1o",
    ),
    "segment_reduce": described("SegmentReduce", reduction="sum", num_features=6),
}  # fmt: skip
WEIGHTED = ["linear", "symmetric_contraction", "fully_connected_tp"]
each_op = pytest.mark.parametrize("op", DESCRIPTORS)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def build(op, folded=True, **changes):
    descriptor = replace(DESCRIPTORS[op], **changes)
    return getattr(MaceBackend(folded), f"make_{op}")(descriptor), descriptor


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def expanded(irreps, channels):
    return "+".join(f"{channels}x{ir}" for _, ir in o3.Irreps(irreps))


def paths_of(d):
    """Node term, edge term and irrep of each path, in the order of the contract."""
    kept = {ir for _, ir in o3.Irreps(d.irreps_out)}
    found = [
        (i, j, ir)
        for i, (_, a) in enumerate(o3.Irreps(d.irreps_node))
        for j, (_, b) in enumerate(o3.Irreps(d.irreps_edge))
        for ir in a * b
        if ir in kept
    ]
    return sorted(found, key=lambda path: (path[2].l, -path[2].p))


def irreps_of(op, d):
    """Irreps of the features among the arguments, by position, and of the result."""
    if op == "linear":
        return {0: d.irreps_in}, d.irreps_out
    if op == "fully_connected_tp":
        return {0: d.irreps_in1, 1: d.irreps_in2}, d.irreps_out
    if op == "segment_reduce":
        return {}, f"{d.num_features}x0e"
    if op == "symmetric_contraction":
        return {0: expanded(d.irreps_in, d.num_features)}, expanded(d.irreps_out, d.num_features)
    out = "+".join(f"{d.num_features}x{ir}" for *_, ir in paths_of(d))
    return {0: expanded(d.irreps_node, d.num_features), 1: d.irreps_edge}, out


def arguments(op, d, nodes=4, edges=7):
    """Arguments in ``mul_ir``; a node without edges, and one that receives twice from another."""
    features, _ = irreps_of(op, d)
    if op == "segment_reduce":
        return [random(edges, d.num_features), torch.tensor([0, 2, 1, 0, 2, 2, 1])[:edges], 4]
    rows = [random(nodes, o3.Irreps(irreps).dim) for irreps in features.values()]
    if op == "symmetric_contraction":
        return [*rows, torch.tensor([0, 1, 1, 0])[:nodes]]
    if op == "channelwise_tp_conv":
        ends = torch.tensor([[0, 1, 2, 3, 0, 2, 0], [1, 0, 2, 2, 2, 0, 1]])[:, :edges]
        weights = random(edges, len(paths_of(d)), d.num_features)
        return [rows[0], random(edges, o3.Irreps(features[1]).dim), weights, *ends, nodes]
    return rows


def in_layout(op, module, d):
    """Return the op as a function of arguments in ``mul_ir``."""
    features, out = irreps_of(op, d)
    if d.layout == "mul_ir" or op == "segment_reduce":
        return module

    def call(*given):
        moved = list(given)
        for position, irreps in features.items():
            moved[position] = Irreps(irreps).to_layout(given[position], d.layout)
        return Irreps(out, d.layout).to_layout(module(*moved), "mul_ir")

    return call


# The references are dense, and read canonical weights.


def dense_linear(x, weight, irreps_in, irreps_out, folded, fan):
    """Copies of equal irreps, output copies outermost, by ``weight[..., pair]``."""
    ins, outs = (
        [ir for mul, ir in o3.Irreps(irreps) for _ in range(mul)]
        for irreps in (irreps_in, irreps_out)
    )
    parts = x.split([ir.dim for ir in ins], -1)
    pairs, results = itertools.count(), []
    for ir in outs:
        total = x.new_zeros(x.shape[0], ir.dim)
        scale = 1.0 if folded else (fan * ins.count(ir)) ** -0.5
        for other, part in zip(ins, parts, strict=True):
            if other == ir:
                total = total + scale * weight[..., next(pairs), None] * part
        results.append(total)
    return torch.cat(results, -1)


def linear(d, folded, state, x):
    z = dense_linear(x, state["weight"], d.irreps_in, d.irreps_out, folded, 1)
    places = torch.cat(
        [
            torch.arange(o3.Irreps(d.irreps_out).dim)[part]
            for part, (_, ir) in zip(
                o3.Irreps(d.irreps_out).slices(), o3.Irreps(d.irreps_out), strict=True
            )
            if ir == o3.Irrep("0e")
        ]
    )
    return z.index_add(1, places, state["bias"].expand(len(x), -1)) if d.has_bias else z


def fully_connected_tp(d, folded, state, x, attributes):
    scalars = o3.Irreps(d.irreps_in2).dim
    weight = attributes @ state["weight"]
    return dense_linear(x, weight, d.irreps_in1, d.irreps_out, folded, scalars)


def channelwise_tp_conv(d, folded, state, x, y, weights, *graph):
    sender, receiver, nodes = graph
    paths, kept = paths_of(d), irreps_of("channelwise_tp_conv", d)
    instructions = [(i, j, k, "uvu", True) for k, (i, j, _) in enumerate(paths)]
    with double_precision():
        product = o3.TensorProduct(*kept[0].values(), kept[1], instructions, shared_weights=False)
    messages = product(x[sender], y, weights.flatten(1))
    return messages.new_zeros(nodes, messages.shape[1]).index_add(0, receiver, messages)


def couplings(irreps, degree, target):
    """All couplings of ``degree`` factors, (2 l + 1, dim, ..., dim), in the contract's order."""
    if degree == 1:
        for part, (_, ir) in zip(irreps.slices(), irreps, strict=True):
            if ir == target:
                yield torch.eye(irreps.dim, dtype=torch.float64)[part]
        return
    reached = {ir for _, ir in irreps}
    for _ in range(degree - 2):
        reached |= {ir for a in reached for _, b in irreps for ir in a * b}
    for middle in sorted(reached, key=lambda ir: (ir.l, -ir.p)):
        for left in couplings(irreps, degree - 1, middle):
            for part, (_, ir) in zip(irreps.slices(), irreps, strict=True):
                if target in middle * ir:
                    table = o3.wigner_3j(middle.l, ir.l, target.l, dtype=torch.float64)
                    path = left.new_zeros(target.dim, *left.shape[1:], irreps.dim)
                    path[..., part] = torch.einsum("mlo,m...->o...l", table, left)
                    yield path


def reduced_basis(irreps, degree, target):
    """Symmetrized couplings that are independent, of unit norm, with a positive first entry."""
    kept, orthogonal = [], []
    for path in couplings(irreps, degree, target):
        orders = itertools.permutations(range(1, degree + 1))
        path = sum(path.permute(0, *order) for order in orders)
        rest = path.flatten().clone()
        for direction in orthogonal:
            rest -= (rest @ direction) * direction
        if rest.norm() > 1e-9:
            orthogonal.append(rest / rest.norm())
            path = path / path.norm()
            first = path.flatten()[path.flatten().abs() > 1e-9][0]
            kept.append(path * first.sign())
    return kept


def bases(d):
    irreps = o3.Irreps(d.irreps_in)
    return [
        [reduced_basis(irreps, degree, ir) for _, ir in o3.Irreps(d.irreps_out)]
        for degree in range(1, d.correlation + 1)
    ]


def symmetric_contraction(d, folded, state, x, element):
    first = [ir.dim for _, ir in o3.Irreps(d.irreps_in)]
    parts = x.split([d.num_features * dim for dim in first], -1)
    x = torch.cat([p.unflatten(1, (d.num_features, -1)) for p in parts], -1)
    results = [0] * len(o3.Irreps(d.irreps_out))
    weights = iter(state["weight"].index_select(0, element).unbind(1))  # (nodes, channels) each
    for row in bases(d):
        for output, basis in enumerate(row):
            for path in basis:
                value = path.expand(*x.shape[:2], *path.shape)
                while value.ndim > 3:
                    value = torch.einsum("nc...i,nci->nc...", value, x)
                results[output] = results[output] + next(weights)[..., None] * value
    return torch.cat([value.flatten(1) for value in results], -1)


def segment_reduce(d, folded, state, values, index, segments):
    return values.new_zeros(segments, values.shape[1]).index_add(0, index, values)


REFERENCES = {
    "linear": linear,
    "channelwise_tp_conv": channelwise_tp_conv,
    "symmetric_contraction": symmetric_contraction,
    "fully_connected_tp": fully_connected_tp,
    "segment_reduce": segment_reduce,
}


def state_of(module):
    """Random canonical weights, and the module with them."""
    if not hasattr(module, "to_canonical"):
        return {}
    state = {
        name: torch.randn_like(x) if x.is_floating_point() else x
        for name, x in module.to_canonical().items()
    }
    module.load_canonical(state)
    return state


def leaves_of(given):
    given = [
        x.detach().clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x
        for x in given
    ]
    return given, [x for x in given if torch.is_tensor(x) and x.requires_grad]


@each_op
@each_layout
@pytest.mark.parametrize("folded", [True, False])
def test_values_and_two_orders_of_gradients_are_those_of_the_contract(op, layout, folded):
    module, d = build(op, folded, layout=layout)
    state, given = state_of(module), arguments(op, d)
    found = []
    for call in (in_layout(op, module, d), lambda *x: REFERENCES[op](d, folded, state, *x)):
        x, leaves = leaves_of(given)
        torch.manual_seed(0)
        z = call(*x)
        first = grad((z * random(*z.shape)).sum() + (z**2).sum(), leaves, create_graph=True)
        second = grad(sum((g * random(*g.shape)).sum() for g in first), leaves)
        found.append([z, *first, *second])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **CLOSE)


@pytest.mark.parametrize("op", WEIGHTED)
@each_layout
@pytest.mark.parametrize("folded", [True, False])
def test_gradients_of_weights_are_those_along_canonical_directions(op, layout, folded):
    module, d = build(op, folded, layout=layout)
    state, given = state_of(module), arguments(op, d)
    canonical, leaves = leaves_of(state.values())
    z = REFERENCES[op](d, folded, dict(zip(state, canonical, strict=True)), *given)
    wanted = grad((z**2).sum(), leaves)
    parameters = list(module.parameters())
    slopes = grad((in_layout(op, module, d)(*given) ** 2).sum(), parameters)
    direction = state_of(module)
    moved = [x for x in direction.values() if x.is_floating_point()]
    got = sum((g * p).sum() for g, p in zip(slopes, parameters, strict=True))
    want = sum((g * v).sum() for g, v in zip(wanted, moved, strict=True))
    torch.testing.assert_close(got.detach(), want, **CLOSE)


@pytest.mark.parametrize("op", WEIGHTED)
def test_canonical_weights_come_back_and_move_between_layouts(op):
    module, _ = build(op)
    state = state_of(module)
    other, _ = build(op, layout="ir_mul")
    other.load_canonical({name: x.clone() for name, x in module.to_canonical().items()})
    for name, x in other.to_canonical().items():
        torch.testing.assert_close(x, state[name], **CLOSE)
    single, _ = build(op, precision="float32")
    single.load_canonical(state)
    assert single.to_canonical()["weight"].dtype == torch.float32


@pytest.mark.parametrize("op", WEIGHTED)
@pytest.mark.parametrize("folded", [True, False])
def test_weights_are_drawn_at_the_scale_of_the_format(op, folded):
    many = {"linear": {"irreps_in": "200x0e", "irreps_out": "100x0e"}}
    many["fully_connected_tp"] = {
        "irreps_in1": "50x0e",
        "irreps_in2": "4x0e",
        "irreps_out": "99x0e",
    }
    many["symmetric_contraction"] = {"num_features": 500}
    module, _ = build(op, folded, **many[op])
    drawn = []
    for seed in (1, 1, 2):
        module.initialize_weights(seed)
        drawn.append({name: x.clone() for name, x in module.to_canonical().items()})
    first, again, other = (state["weight"] for state in drawn)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    scale = 200**-0.5 if folded else 1.0
    if op == "symmetric_contraction":
        counts = drawn[0]["path_counts"]
        scale = 1 / counts.double().repeat_interleave(counts)[:, None] if not folded else 1.0
    assert (first / scale).std().item() == pytest.approx(1, abs=0.03)  # 6 sigma of 20,000 draws
    if op == "linear":
        assert not drawn[0]["bias"].any()


def test_the_reduced_basis_has_the_paths_of_the_contract():
    module, _ = build("symmetric_contraction", irreps_in="0e+1o+2e+3o", irreps_out="0e+1o+2e")
    counts = module.to_canonical()["path_counts"].reshape(3, 3)
    assert counts.sum(0).tolist() == [13, 16, 20]
    assert counts[2].tolist() == [8, 12, 14]


def test_couplings_with_both_parities_are_reduced_in_the_order_of_the_contract():
    module, d = build("symmetric_contraction", irreps_in="1o+0o+1e+2e", irreps_out="1e+0o+2o")
    state, given = state_of(module), arguments("symmetric_contraction", d)
    want = symmetric_contraction(d, True, state, *given)
    torch.testing.assert_close(module(*given).detach(), want, **CLOSE)


@each_op
@each_layout
def test_ops_are_equivariant(op, layout):
    module, d = build(op, layout=layout)
    features, out = irreps_of(op, d)
    call, given = in_layout(op, module, d), arguments(op, d)
    g = -o3.angles_to_matrix(*torch.tensor([0.3, -1.0, 0.7], dtype=torch.float64))
    moved = list(given)
    for position, irreps in features.items():
        moved[position] = Irreps(irreps).act(g, given[position])
    want = Irreps(out).act(g, call(*given))
    torch.testing.assert_close(call(*moved).detach(), want.detach(), **CLOSE)


@each_op
@each_layout
def test_tensors_on_the_meta_device_have_the_shape_of_the_result(op, layout):
    module, d = build(op, layout=layout)
    given = arguments(op, d)
    shape = module(*given).shape
    given = [x.to("meta") if torch.is_tensor(x) else x for x in given]
    z = module.to("meta")(*given)
    assert z.is_meta
    assert z.shape == shape


@each_op
@pytest.mark.parametrize("layout", ["mul_ir", pytest.param("ir_mul", marks=pytest.mark.full)])
@pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own tracing
def test_one_compiled_program_serves_all_sizes_and_gradients(op, layout):
    fewer = {"irreps_in1": "4x0e+3x1o", "irreps_in2": "3x0e"} if op == "fully_connected_tp" else {}
    module, d = build(op, layout=layout, **fewer)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    once = arguments(op, d)
    for copies in (2, 3, 5):
        given = [tiled(x, copies, op) for x in once]
        results = []
        for call in (module, compiled):
            x, leaves = leaves_of(given)
            z = call(*x)
            results.append([z, *grad((z**2).sum(), leaves)])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, **CLOSE)
        torch.compiler.set_stance("fail_on_recompile")
    torch.compiler.set_stance("default")


def tiled(x, copies, op):
    if not torch.is_tensor(x):
        return x * copies
    if x.is_floating_point() or op == "symmetric_contraction":
        return torch.cat([x] * copies)
    return torch.cat([x + 4 * copy for copy in range(copies)])


@each_op
def test_empty_graphs_have_empty_or_zero_results_and_gradients(op):
    module, d = build(op)
    for nodes, edges in ((0, 0), (4, 0)):
        if op == "segment_reduce":
            given = [random(0, d.num_features), torch.zeros(0, dtype=torch.int64), nodes]
        else:
            given = arguments(op, d, nodes, edges)
        x, leaves = leaves_of(given)
        z = module(*x)
        assert z.shape == (nodes, o3.Irreps(irreps_of(op, d)[1]).dim)
        if op in ("channelwise_tp_conv", "segment_reduce"):
            assert not z.any()
        assert [g.shape for g in grad(z.sum(), leaves)] == [leaf.shape for leaf in leaves]


def test_segments_may_be_of_scalars_or_matrices():
    module, _ = build("segment_reduce")
    index = torch.tensor([1, 0, 1])
    assert module(torch.tensor([1.0, 2.0, 4.0]), index, 3).tolist() == [2.0, 5.0, 0.0]
    assert module(torch.ones(3, 2, 2), index, 2).tolist() == [[[1.0] * 2] * 2, [[2.0] * 2] * 2]


@each_op
def test_results_are_equal_to_the_bit_in_repeated_calls(op):
    module, d = build(op)
    state_of(module)
    given = arguments(op, d)
    assert torch.equal(module(*given), module(*given))


UNSUPPORTED = {
    "precision": ("linear", {"precision": "bfloat16"}, "precision 'bfloat16'"),
    "layout": ("linear", {"layout": "both"}, "layout 'both'"),
    "copies of nodes": ("channelwise_tp_conv", {"irreps_node": "2x0e"}, "must be single"),
    "parity": ("channelwise_tp_conv", {"irreps_out": "0e+1e"}, "parity of spherical harmonics"),
    "basis": ("symmetric_contraction", {"basis": "full"}, "basis 'full'"),
    "copies": ("symmetric_contraction", {"irreps_in": "0e+2x1o"}, "must be single"),
    "second input": ("fully_connected_tp", {"irreps_in2": "2x0e+1o"}, "not 0e alone"),
    "reduction": ("segment_reduce", {"reduction": "max"}, "reduction 'max'"),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_what_capabilities_exclude_is_not_built(case):
    op, changes, message = UNSUPPORTED[case]
    known, descriptor = MaceBackend().capabilities(), replace(DESCRIPTORS[op], **changes)
    assert not known.supports(descriptor)
    refused(message, build, op, **changes, error=NotImplementedError)
    refused(message, known.require, descriptor, "equigeo", error=NotImplementedError)


def test_capabilities_name_what_is_built():
    backend = MaceBackend()
    known = backend.capabilities()
    assert known.ops == set(DESCRIPTORS)
    assert all(known.supports(descriptor) for descriptor in DESCRIPTORS.values())
    assert "Descriptor is not one of" in known.unsupported_reason(Descriptor())
    known.require_double_backward("equigeo", "training on forces")
    for name in ("spherical_harmonics", "radial_basis", "interaction_layer"):
        assert getattr(backend, f"make_{name}")(Descriptor()) is None


def test_an_older_descriptor_of_convolutions_is_not_built():
    class ChannelwiseTPConvDescriptor(Descriptor):
        irreps_node = irreps_edge = irreps_out = "0e"

    make = MaceBackend().make_channelwise_tp_conv
    refused("num_features", make, ChannelwiseTPConvDescriptor(), error=NotImplementedError)


WRONG = {
    "columns of linear": ("linear", {0: random(4, 3)}, "features must be"),
    "dtype of linear": ("linear", {0: torch.ones(4, 25)}, "dtype|float64"),
    "attributes": ("fully_connected_tp", {1: random(4, 5)}, "must"),
    "flat weights": ("channelwise_tp_conv", {2: random(7, 30)}, "radial_weights must be"),
    "nodes": ("channelwise_tp_conv", {0: random(4, 5)}, "x must"),
    "edges": ("channelwise_tp_conv", {1: random(6, 16)}, "edge_attr must have 7 rows"),
    "receiver": ("channelwise_tp_conv", {4: torch.full((7,), 9)}, "targets of edge_index"),
    "per channel": ("symmetric_contraction", {0: random(4, 3, 9)}, "features must be"),
    "one-hot": ("symmetric_contraction", {1: random(4, 2)}, "element must be int64"),
    "dtype of features": ("symmetric_contraction", {0: torch.ones(4, 27)}, "features must be"),
    "elements": ("symmetric_contraction", {1: torch.zeros(3, dtype=torch.int64)}, "element must"),
    "segments": ("segment_reduce", {1: torch.zeros(3, dtype=torch.int64)}, "index must"),
    "dtype of segments": ("segment_reduce", {1: torch.zeros(7)}, "index must be int64"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_one_clear_error(case):
    op, changes, message = WRONG[case]
    module, d = build(op)
    given = [changes.get(k, x) for k, x in enumerate(arguments(op, d))]
    refused(message, module, *given, error=(ValueError, TypeError))


@pytest.mark.parametrize("op", WEIGHTED)
def test_canonical_weights_of_another_shape_are_not_loaded(op):
    module, _ = build(op)
    state = module.to_canonical()
    refused("weight must be", module.load_canonical, state | {"weight": random(3)})
    if op == "linear":
        refused("bias must be", module.load_canonical, state | {"bias": random(1)})
    if op == "symmetric_contraction":
        counts = {"path_counts": state["path_counts"].flip(0)}
        refused("path_counts must be", module.load_canonical, state | counts)


def test_the_installed_draft_chooses_the_error_and_the_normalization(monkeypatch):
    class UnsupportedDescriptorError(RuntimeError):
        pass

    there = {
        "capabilities": SimpleNamespace(UnsupportedDescriptorError=UnsupportedDescriptorError),
        "canonical": SimpleNamespace(linear_path_normalization=len),
    }
    assert MaceBackend().folded
    there = {f"mace_core.kernels.{name}": module for name, module in there.items()}
    monkeypatch.setattr("equigeo.interop.mace_backend.import_module", there.__getitem__)
    assert not MaceBackend().folded
    refused("basis", build, "symmetric_contraction", basis="full", error=UnsupportedDescriptorError)


def test_the_entry_point_names_the_backend():
    text = Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
    group = '[project.entry-points."mace.kernel_backends.torch"]'
    found = re.search(rf'{re.escape(group)}\nequigeo = "(.+):(.+)"', text)
    assert found is not None
    backend = getattr(importlib.import_module(found[1]), found[2])()
    assert isinstance(backend, MaceBackend)
    assert backend.name == "equigeo"
