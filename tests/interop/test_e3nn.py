from dataclasses import replace

import pytest
import torch
from e3nn import nn as e3nn_nn
from e3nn.math import normalize2mom
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo import nn, tensor_products
from equigeo.groups import O
from equigeo.interop import accelerate, from_e3nn, reorder, to_e3nn
from equigeo.interop.terms import degrees_of, turn_paths
from equigeo.nn import Activation, Linear, NormalizedActivation, RadialMLP
from equigeo.nn.module import allow_unreached
from equigeo.reps import Irreps, TensorRep, wigner_3j
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import BUILDERS, build, double_precision, inputs, o3, random
from tests.wrong_inputs import refused

pytestmark = [
    # Random irreps and lists of paths leave terms that nothing arrives at.
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]

EXACT = dict(rtol=1e-12, atol=1e-12)  # what is promised of modules built in float64
MERGED = "fully connected, variances"  # no class but the general one can have these paths


@pytest.mark.parametrize("name", BUILDERS)
def test_converted_module_is_the_same_map_in_either_layout_and_converts_back(name):
    theirs = build(name)
    given = inputs(theirs)
    expected, ours = theirs(*given), from_e3nn(theirs)
    torch.testing.assert_close(ours(*given), expected, **EXACT)
    for parameter, value in theirs.named_parameters():
        assert ours.get_parameter(parameter).equal(value)
        assert ours.get_parameter(parameter) is not value
    assert str(ours.irreps_out) == str(theirs.irreps_out)
    assert type(ours).__name__ == ("TensorProduct" if name == MERGED else type(theirs).__name__)

    columns = from_e3nn(theirs, layout="ir_mul")
    reps = [columns.rep_in] if isinstance(columns.rep_in, Irreps) else [*columns.rep_in]
    moved = [Irreps(rep.terms).to_layout(x, "ir_mul") for rep, x in zip(reps, given, strict=False)]
    out = columns.rep_out.to_layout(columns(*moved, *given[len(reps) :]), "mul_ir")
    torch.testing.assert_close(out, expected, **EXACT)

    back = to_e3nn(ours)
    torch.testing.assert_close(back(*given), expected, **EXACT)
    assert type(back) is (o3.TensorProduct if name == MERGED else type(theirs))
    shapes = [{k: v.shape for k, v in module.state_dict().items()} for module in (back, theirs)]
    assert shapes[0] == shapes[1]

    accelerate(theirs)
    again = from_e3nn(theirs)
    assert type(again) is type(ours)
    torch.testing.assert_close(again(*given), expected, **EXACT)


@pytest.mark.parametrize("name", ["external", "fully connected", "full", "linear, biases"])
def test_conversion_keeps_flags_dtype_device_and_global_state(name):
    theirs = build(name).float().eval()
    for parameter in theirs.parameters():
        parameter.requires_grad_(False)
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    for converted in (from_e3nn(theirs), to_e3nn(from_e3nn(theirs))):
        assert not any(module.training for module in converted.modules())
        assert not any(p.requires_grad for p in converted.parameters())
        assert {p.dtype for p in converted.parameters()} <= {torch.float32}
    assert torch.get_rng_state().equal(state)
    assert torch.get_default_dtype() == dtype
    meta = from_e3nn(theirs.to("meta"))
    assert {p.device.type for p in meta.parameters()} <= {"meta"}
    trained = from_e3nn(build(name))
    assert trained.training
    assert all(p.requires_grad for p in trained.parameters())


def test_tables_are_exact_even_where_those_of_e3nn_are_rounded():
    arguments = ("1o", "2e", ["1o", "3o"])  # the signs of 2o depend on the version
    single = o3.FullTensorProduct(*arguments).double()
    exact = tensor_products.FullTensorProduct(*arguments).double()
    x, y = random(5, 3), random(5, 5, seed=1)
    torch.testing.assert_close(from_e3nn(single)(x, y), exact(x, y), **EXACT)
    torch.testing.assert_close(to_e3nn(exact)(x, y), exact(x, y), **EXACT)


def test_a_module_keeps_the_signs_of_its_own_couplings():
    # Those of e3nn 0.4, whichever version is installed.
    turned = {(1, 2, 2), (2, 1, 2), (2, 2, 1)}
    with double_precision():
        theirs = o3.FullyConnectedTensorProduct("2x1o+2e", "1o+2x2e", "1x0e+2x1e+1x2o+1x3e")
    for degrees in turned:
        name = "_compiled_main_left_right._w3j_{}_{}_{}".format(*degrees)
        theirs.state_dict()[name].copy_(-wigner_3j(*degrees))
    ours = from_e3nn(theirs)
    expected = theirs(*inputs(theirs))
    torch.testing.assert_close(ours(*inputs(theirs)), expected, **EXACT)
    for module in (ours, reorder(ours, layout="ir_mul")):
        negative = {degrees_of(module, p) for p in module.instructions if p.path_weight < 0}
        assert negative == turned
    torch.testing.assert_close(to_e3nn(ours)(*inputs(theirs)), expected, **EXACT)


def test_signs_that_e3nn_cannot_have_are_refused():
    ours = tensor_products.TensorProduct(
        "1o+1x1o", "1o", "1x1e+1x1e+2e", [(0, 0, 0, "uvw", True), (1, 0, 1, "uvw", True)]
    )
    turn_paths(ours, [1.0, -1.0])
    refused(r"one coupling for all paths of degrees \(1, 1, 1\)", to_e3nn, ours)
    turn_paths(ours, [-1.0, -1.0])
    refused(r"no coupling of degrees \(1, 1, 1\) that could be turned", to_e3nn, ours)


terms = st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from([1, -1])))
irreps = st.lists(terms, min_size=1, max_size=3).map(Irreps)
any_irreps = st.lists(terms, max_size=4).map(Irreps)


@given(irreps, irreps, irreps, st.sampled_from(["component", "norm"]))
@settings(max_examples=10)
def test_any_fully_connected_product_is_converted(in1, in2, out, normalization):
    with double_precision():
        theirs = o3.FullyConnectedTensorProduct(str(in1), str(in2), str(out), normalization)
    ours = from_e3nn(theirs)
    torch.testing.assert_close(ours(*inputs(ours)), theirs(*inputs(ours)), **EXACT)


@given(irreps, irreps, st.sampled_from(["element", "path"]))
@settings(max_examples=15)
def test_any_linear_is_converted(irreps_in, irreps_out, normalization):
    with allow_unreached():  # e3nn takes irreps between which there is no path
        ours = nn.Linear(str(irreps_in), str(irreps_out), path_normalization=normalization)
    theirs = to_e3nn(ours.double())
    torch.testing.assert_close(ours(*inputs(ours)), theirs(*inputs(ours)), **EXACT)
    assert theirs.output_mask.equal(ours.output_mask)
    back = from_e3nn(theirs)
    torch.testing.assert_close(back(*inputs(ours)), ours(*inputs(ours)), **EXACT)


def test_a_channelwise_product_becomes_a_general_one():
    ours = tensor_products.ChannelwiseTensorProduct("4x0e+4x1o", "0e+1o", "0e+1o+2e").double()
    theirs = to_e3nn(ours)
    assert type(theirs) is o3.TensorProduct
    torch.testing.assert_close(theirs(*inputs(ours)), ours(*inputs(ours)), **EXACT)


SUPPORTED = "expected one of FullyConnectedTensorProduct, .*, SphericalHarmonics"


class Doubled(o3.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_other_modules_of_any_library_are_refused():
    foreign = (torch.nn.Linear(2, 2), Doubled("1o", "1o"), nn.Linear("1o", "1o"))
    for module in foreign:
        name = type(module).__qualname__
        refused(rf"cannot convert \S*{name}: {SUPPORTED}", from_e3nn, module, error=TypeError)
    for module in (torch.nn.Linear(2, 2), o3.Linear("1o", "1o"), nn.Tables()):
        refused(rf"cannot convert .*: {SUPPORTED}", to_e3nn, module, error=TypeError)
    tensors = 2 * TensorRep(O(3), up=2)
    for change, options in ((to_e3nn, {}), (reorder, {"layout": "ir_mul"})):
        mixing = nn.Linear(tensors, tensors)
        refused("sides are not both irreps", change, mixing, error=TypeError, **options)


def test_options_without_a_counterpart_are_refused():
    for internal in (True, False):
        theirs = o3.Linear("2x1o", "3x1o", f_in=5, f_out=2, internal_weights=internal)
        refused("f_in and f_out", from_e3nn, theirs)
    with pytest.raises(ValueError, match=r'has the layout "mul_ir", the module "ir_mul"'):
        to_e3nn(nn.Linear("2x1o", "3x1o", layout="ir_mul"))
    square = tensor_products.TensorSquare("2x1o+1x1e")
    paths = [
        replace(path, path_weight=2 * path.path_weight) for path in square.product.instructions
    ]
    square.product.set_paths(paths)
    square.instructions = square.product.instructions
    refused("other factors or another order of terms", to_e3nn, square)


SUMS = tolerance(torch.float64, terms=16)  # channels of the widest layer
TANH, SILU, ABS = torch.tanh, torch.nn.functional.silu, torch.abs


@pytest.mark.parametrize("function", [TANH, SILU, torch.sigmoid, torch.relu, torch.exp])
def test_scales_agree_with_the_estimate_of_e3nn(function):
    estimate = normalize2mom(function).cst
    # A million samples: half of the relative error of a mean square, sqrt(E f^4 / (E f^2)^2 - 1) in
    # thousands, which is sqrt(e^4 - 1) = 7.3 for the exponential; five of them.
    assert NormalizedActivation(function).scale == pytest.approx(estimate, rel=0.02)
    if function is not torch.exp:
        # At most 2.5 / 2 thousandths, of the SiLU; one and a half of them.
        assert NormalizedActivation(function).scale == pytest.approx(estimate, rel=2e-3)


GATES = {
    "odd gates": ("16x0o", [TANH], "32x0o", [TANH], "16x1e+16x1o"),
    "mixed": (
        "4x0e+3x0o+2x0e",
        [SILU, ABS, None],
        "2x0e+3x0o+1x0o",
        [SILU, TANH, ABS],
        "3x1o+1x2e+2x1o",
    ),
    "scalars only": ("2x0e", [SILU], "", [], ""),
    "gated only": ("", [], "3x0e", [SILU], "3x1o"),
    "nothing at 0": ("0x0e+2x0o", [SILU, TANH], "3x0e", [SILU], "0x0e+1x1o+2x2e"),
}


@pytest.mark.parametrize("problem", GATES.values(), ids=GATES.keys())
def test_gates_and_activations_are_converted_with_the_constants_of_e3nn(problem):
    with double_precision():
        gate = e3nn_nn.Gate(*problem)
        vectors = e3nn_nn.Activation("2x0e+2x1o+2x0o+1x0o", [torch.exp, None, TANH, ABS])
    for theirs in (gate, gate.act_scalars, vectors):
        x = random(5, theirs.irreps_in.dim)
        expected = theirs(x)
        ours = from_e3nn(theirs)
        assert type(ours).__module__.startswith("equigeo.")
        assert str(ours.irreps_in) == str(theirs.irreps_in)
        assert str(ours.irreps_out) == str(theirs.irreps_out)
        torch.testing.assert_close(ours(x), expected, **SUMS)
        columns = from_e3nn(theirs, layout="ir_mul")
        moved = columns(ours.irreps_in.to_layout(x, "ir_mul"))
        torch.testing.assert_close(moved, ours.irreps_out.to_layout(expected, "ir_mul"), **SUMS)
        exact = from_e3nn(theirs, constants="exact")(x)
        torch.testing.assert_close(exact, expected, rtol=1e-2, atol=1e-2)  # twice 2e-3
        accelerate(theirs)
        torch.testing.assert_close(from_e3nn(theirs)(x), expected, **SUMS)


def test_exact_constants_are_those_of_this_library():
    theirs = e3nn_nn.Activation("3x0e", [SILU])
    x = random(5, 3)
    exact = from_e3nn(theirs, constants="exact")(x)
    assert torch.equal(exact, Activation("3x0e", [SILU])(x))
    assert not torch.allclose(exact, from_e3nn(theirs)(x), rtol=1e-4)  # e3nn is off by 1.6e-3
    with pytest.raises(ValueError, match='constants must be "e3nn" or "exact", got \'sampled\''):
        from_e3nn(theirs, constants="sampled")


@pytest.mark.parametrize("out_act", [False, True])
def test_radial_networks_agree_and_exchange_states(out_act):
    options = dict(variance_in=2, variance_out=3, out_act=out_act)
    theirs = e3nn_nn.FullyConnectedNet([4, 8, 8, 5], SILU, **options).double()
    scaled = NormalizedActivation(SILU, normalize2mom(SILU).cst)
    ours = RadialMLP([4, 8, 8, 5], scaled, **options).double()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    x = random(6, 4)
    torch.testing.assert_close(ours(x), theirs(x), **SUMS)


@given(any_irreps, any_irreps, st.booleans(), st.sampled_from(["element", "path"]))
def test_linear_agrees_and_exchanges_states(irreps_in, irreps_out, shared, normalization):
    options = dict(shared_weights=shared, path_normalization=normalization)
    with double_precision():
        theirs = o3.Linear(str(irreps_in), str(irreps_out), **options)
    with allow_unreached():  # e3nn takes irreps between which there is no path
        ours = Linear(str(irreps_in), str(irreps_out), **options).double()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert [tuple(ins) for ins in ours.instructions] == [tuple(ins) for ins in theirs.instructions]
    weight = None if shared else random(6, ours.weight_numel, seed=1)
    x = random(6, irreps_in.dim)
    torch.testing.assert_close(ours(x, weight), theirs(x, weight), **SUMS)
