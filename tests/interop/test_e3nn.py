from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo import nn, tensor_products
from equigeo.groups import O
from equigeo.interop import accelerate, from_e3nn, reorder, to_e3nn
from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.terms import degrees_of, turn_paths
from equigeo.nn.module import allow_unreached
from equigeo.reps import Irreps, TensorRep, wigner_3j
from tests.interop.e3nn_modules import BUILDERS, build, float64, inputs, o3, random
from tests.wrong_inputs import refused

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit"),
    # Random irreps and lists of paths leave terms that nothing arrives at.
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]

EXACT = dict(rtol=1e-12, atol=1e-12)  # what is promised of modules built in float64
MERGED = "fully connected, variances"  # no class but the general one can have these paths
names = pytest.mark.parametrize("name", BUILDERS)


@names
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


@names
def test_an_accelerated_module_is_converted_as_before(name):
    theirs = build(name)
    given = inputs(theirs)
    expected = theirs(*given)
    accelerate(theirs)
    ours = from_e3nn(theirs)
    assert type(ours).__module__.startswith("equigeo.")
    assert not isinstance(ours, Accelerated)
    torch.testing.assert_close(ours(*given), expected, **EXACT)


@pytest.mark.parametrize("name", ["external", "fully connected", "full", "linear, biases"])
def test_flags_dtype_and_device_are_kept(name):
    theirs = build(name).float().eval()
    for parameter in theirs.parameters():
        parameter.requires_grad_(False)
    for converted in (from_e3nn(theirs), to_e3nn(from_e3nn(theirs))):
        assert not any(module.training for module in converted.modules())
        assert not any(p.requires_grad for p in converted.parameters())
        assert {p.dtype for p in converted.parameters()} <= {torch.float32}
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
    with float64():
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
    with pytest.raises(ValueError, match=r"one coupling for all paths of degrees \(1, 1, 1\)"):
        to_e3nn(ours)
    turn_paths(ours, [-1.0, -1.0])
    with pytest.raises(
        ValueError, match=r"no coupling of degrees \(1, 1, 1\) that could be turned"
    ):
        to_e3nn(ours)


def test_conversion_draws_no_random_numbers_and_keeps_the_default_dtype():
    theirs = build("fully connected, norm, path")
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    to_e3nn(from_e3nn(theirs))
    assert torch.get_rng_state().equal(state)
    assert torch.get_default_dtype() == dtype


irreps = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from([1, -1]))),
    min_size=1,
    max_size=3,
).map(Irreps)


@given(irreps, irreps, irreps, st.sampled_from(["component", "norm"]))
@settings(max_examples=10)
def test_any_fully_connected_product_is_converted(in1, in2, out, normalization):
    with float64():
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
    foreign = (
        torch.nn.Linear(2, 2),
        Doubled("1o", "1o"),
        nn.Linear("1o", "1o"),
    )
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
        with pytest.raises(ValueError, match="f_in and f_out"):
            from_e3nn(theirs)
    with pytest.raises(ValueError, match=r'has the layout "mul_ir", the module "ir_mul"'):
        to_e3nn(nn.Linear("2x1o", "3x1o", layout="ir_mul"))
    square = tensor_products.TensorSquare("2x1o+1x1e")
    paths = [
        replace(path, path_weight=2 * path.path_weight) for path in square.product.instructions
    ]
    square.product.set_paths(paths)
    square.instructions = square.product.instructions
    with pytest.raises(ValueError, match="other factors or another order of terms"):
        to_e3nn(square)
