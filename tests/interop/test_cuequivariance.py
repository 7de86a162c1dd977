import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo import nn, tensor_products
from equigeo.interop import accelerate, reorder, sort_irreps
from equigeo.interop.cuequivariance import (
    convert,
    from_cue_irreps,
    from_descriptor,
    to_cue_irreps,
    to_descriptor,
)
from equigeo.reps import Irreps, wigner_3j
from equigeo.testing import tolerance
from tests.draws import random
from tests.wrong_inputs import refused

cue = pytest.importorskip("cuequivariance", reason="needs pip install equigeo[cuequivariance]")
cuet = pytest.importorskip("cuequivariance_torch", reason="needs pip install cuequivariance-torch")

# Single paths of a product leave terms that nothing arrives at.
pytestmark = pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning")

CLOSE = dict(rtol=1e-14, atol=1e-14)  # what is promised; outputs are of order one
COUPLED = tolerance(torch.float64, terms=7)  # orders of the highest degree
layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
groups = pytest.mark.parametrize("group", ["O3", "O3_e3nn"])


def close(a: torch.Tensor, b: torch.Tensor, scale: float = 1.0) -> None:
    torch.testing.assert_close(a / scale, b / scale, **CLOSE)


def features(module, batch: int = 5) -> list[torch.Tensor]:
    reps = module.rep_in if isinstance(module.rep_in, tuple) else [module.rep_in]
    return [random(batch, rep.dim, seed=n) for n, rep in enumerate(reps)]


def evaluate(descriptor, module, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Let cuEquivariance compute what a module computes."""
    weights = []
    if getattr(module, "weight_numel", 0):
        weights = [module.weight.detach()[None]]
    polynomial = cuet.SegmentedPolynomial(descriptor.polynomial, method="naive")
    return polynomial([*weights, *inputs])[0]


def test_accelerate_names_modules_of_cuequivariance():
    irreps = cue.Irreps("O3", "2x0e")
    module = torch.nn.ModuleList(
        [
            cuet.Linear(irreps, irreps, layout=cue.ir_mul, method="naive"),
            cuet.SphericalHarmonics([0, 1], True, method="naive"),
        ]
    )
    report = accelerate(module)
    assert not report.replaced + report.kept
    assert [note.path for note in report.unknown] == ["0", "1"]
    assert all("interop.cuequivariance.convert" in note.note for note in report.unknown)


# --- Conventions ---------------------------------------------------------------------------------


def test_couplings_differ_by_the_root_of_the_dimension():
    for l1 in range(4):
        for l2 in range(4):
            for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                (theirs,) = cue.SO3.clebsch_gordan(l1, l2, l3)
                ours = wigner_3j(l1, l2, l3).numpy()
                np.testing.assert_allclose(theirs, (2 * l3 + 1) ** 0.5 * ours, **COUPLED)


def test_layouts_are_those_of_cuequivariance():
    irreps, x = Irreps("2x0e+3x1o"), torch.arange(11)[None]
    move = cuet.TransposeIrrepsLayout(to_cue_irreps(irreps), source=cue.mul_ir, target=cue.ir_mul)
    assert irreps.to_layout(x, "ir_mul").equal(move(x))
    assert move(x).tolist() == [[0, 1, 2, 5, 8, 3, 6, 9, 4, 7, 10]]


irreps = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 3), st.sampled_from([1, -1]))), max_size=5
).map(Irreps)


@given(irreps, st.sampled_from(["O3", "O3_e3nn"]), st.sampled_from(["mul_ir", "ir_mul"]))
def test_irreps_go_there_and_back(given_irreps, group, layout):
    there = to_cue_irreps(given_irreps, group)
    assert from_cue_irreps(there) == given_irreps
    rep = cue.IrrepsAndLayout(there, getattr(cue, layout))
    assert from_cue_irreps(rep) == given_irreps.with_layout(layout)


def test_irreps_of_rotations_become_even():
    assert str(from_cue_irreps(cue.Irreps("SO3", "2x0+3x1"))) == "2x0e+3x1e"
    with pytest.raises(TypeError, match="expected irreps of O3 or SO3"):
        from_cue_irreps(cue.Irreps("SU2", "1/2"))
    refused('group must be "O3" or "O3_e3nn"', to_cue_irreps, "0e", "SO3")


# --- Descriptors ---------------------------------------------------------------------------------

CONNECTIONS = [
    (0, 0, 0, "uvw", True, 2.0),
    (0, 0, 0, "uuw", True),
    (1, 0, 1, "uvu", True, 0.5),
    (1, 1, 1, "uuu", False, 3.0),
    (1, 2, 2, "uvuv", True),
    (0, 1, 3, "uvv", True),
    (0, 0, 4, "uuu", True),
    (0, 0, 4, "uvu", False),
    (0, 0, 4, "uvv", False),
    (0, 0, 5, "uuw", False),
    (1, 1, 6, "uvuv", False),
]
OUT = "4x0e+3x1o+6x1o+3x1e+3x0e+1x0e+9x0o+2x2o"


def product(paths, layout, out=OUT):
    first, second = "3x0e+3x1o", "3x0e+3x1e+2x2e"
    return tensor_products.TensorProduct(first, second, out, paths, layout=layout).double()


DESCRIBED = {
    **{
        f"{path[3]} {'with' if path[4] else 'without'} weights {n}": (
            lambda layout, path=path: product([path], layout)
        )
        for n, path in enumerate(CONNECTIONS)
    },
    "all connections": lambda layout: product(CONNECTIONS, layout),
    "fully connected": lambda layout: tensor_products.FullyConnectedTensorProduct(
        "2x0e+3x1o", "4x0e+5x1o", "6x0e+7x1o+2x1e", layout=layout
    ),
    "full": lambda layout: tensor_products.FullTensorProduct("2x0e+1o", "0o+2x1o", layout=layout),
    "elementwise": lambda layout: tensor_products.ElementwiseTensorProduct(
        "3x0e+2x1o", "3x1o+2x1e", layout=layout
    ),
    "channelwise": lambda layout: tensor_products.ChannelwiseTensorProduct(
        "4x0e+4x1o", "0e+1o+2e", "0e+1o+2e", shared_weights=True, layout=layout
    ),
    "linear": lambda layout: nn.Linear("4x0e+3x1o+2x0e", "5x0e+2x1o+1x2e+3x0e", layout=layout),
    "linear, path": lambda layout: nn.Linear(
        "4x0e+3x1o+2x0e", "5x0e+2x1o", path_normalization="path", layout=layout
    ),
    "harmonics": lambda layout: tensor_products.SphericalHarmonics("0e+1o+2e", False),
    "harmonics, norm": lambda layout: tensor_products.SphericalHarmonics([2, 0], False, "norm"),
    "harmonics, pseudovector": lambda layout: tensor_products.SphericalHarmonics(
        "0e+1e+2e", False, "component"
    ),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_descriptor_computes_what_the_module_computes_and_converts_back(name):
    for layout in ("mul_ir", "ir_mul"):
        module = DESCRIBED[name](layout).double()
        inputs, descriptor = features(module), to_descriptor(module)
        out = module(*inputs)
        scale = max(1.0, out.abs().max().item())
        assert [from_cue_irreps(rep).dim for rep in descriptor.inputs[-len(inputs) :]] == [
            x.shape[-1] for x in inputs
        ]
        close(evaluate(descriptor, module, inputs), out, scale)
        back = from_descriptor(descriptor).double()
        if module.state_dict().get("weight") is not None and module.weight.numel():
            back.weight = module.weight
        close(back(*inputs), out, scale)
        assert back.rep_out == module.rep_out


@groups
def test_descriptors_of_cuequivariance_are_read(group):
    first, second = to_cue_irreps("4x0e+4x1o", group), to_cue_irreps("0e+1o", group)
    tolerance = 1e-14 if group == "O3" else 1e-6  # that library's couplings are float32 there
    for descriptor in (
        cue.descriptors.fully_connected_tensor_product(first, second, first),
        cue.descriptors.channelwise_tensor_product(first, second, first),
        cue.descriptors.full_tensor_product(first, second),
        cue.descriptors.elementwise_tensor_product(first, to_cue_irreps("4x1o+4x1e", group)),
        cue.descriptors.linear(first, to_cue_irreps("2x0e+3x1o", group)),
    ):
        module = from_descriptor(descriptor).double()
        inputs = features(module)
        torch.testing.assert_close(
            evaluate(descriptor, module, inputs), module(*inputs), rtol=tolerance, atol=tolerance
        )
        if group == "O3":
            counts = [
                sum(len(stp.paths) for _, stp in d.polynomial.operations)
                for d in (descriptor, to_descriptor(module))
            ]
            assert counts[0] == counts[1]


@layouts
def test_signs_of_paths_are_kept(layout):
    module = DESCRIBED["fully connected"](layout).double()
    turned = from_descriptor(to_descriptor(module) * -2.0).double()
    turned.weight = module.weight
    inputs = features(module)
    close(turned(*inputs), -2.0 * module(*inputs), scale=10.0)
    again = reorder(turned, layout="mul_ir")
    assert [path.path_weight for path in again.instructions] == pytest.approx(
        [-2.0 * path.path_weight for path in module.instructions], rel=CLOSE["rtol"]
    )
    back = evaluate(to_descriptor(turned), turned, inputs)
    close(back, turned(*inputs), scale=10.0)


@pytest.mark.parametrize("name", ["fully connected", "full", "linear", "harmonics, pseudovector"])
def test_descriptors_are_those_of_cuequivariance(name):
    module = DESCRIBED[name]("ir_mul")
    group = "O3_e3nn" if name == "full" else "O3"  # full products are sorted
    first, *rest, out = (
        to_cue_irreps(rep, group)
        for rep in (*(module.rep_in if name[0] == "f" else [module.rep_in]), module.rep_out)
    )
    theirs = {
        "fully connected": lambda: cue.descriptors.fully_connected_tensor_product(
            first, *rest, out
        ),
        "full": lambda: cue.descriptors.full_tensor_product(first, *rest),
        "linear": lambda: cue.descriptors.linear(first, out),
        "harmonics, pseudovector": lambda: cue.descriptors.spherical_harmonics(
            cue.O3(1, 1), [0, 1, 2]
        ),
    }[name]()
    ours = to_descriptor(module, group=group)
    assert ours.inputs == theirs.inputs
    assert ours.outputs == theirs.outputs
    # Couplings of O3_e3nn are those of e3nn in single precision.
    close = tolerance(torch.float64 if group == "O3" else torch.float32)
    for (_, a), (_, b) in zip(
        ours.polynomial.operations, theirs.polynomial.operations, strict=True
    ):
        assert a.subscripts == b.subscripts
        assert [path.indices for path in a.paths] == [path.indices for path in b.paths]
        for path, other in zip(a.paths, b.paths, strict=True):
            np.testing.assert_allclose(path.coefficients, other.coefficients, **close)


# --- Modules -------------------------------------------------------------------------------------


def theirs(name: str, *irreps: str, **options):
    """Build a module of cuEquivariance in float64 that runs on a CPU."""
    made = [to_cue_irreps(text) for text in irreps]
    if name != "Linear":
        options["dtype"] = torch.float64
    layout = getattr(cue, options.pop("layout", "mul_ir"))
    module = getattr(cuet, name)(*made, method="naive", layout=layout, **options)
    return module.double()


MODULES = {
    "linear": ("Linear", "4x0e+3x1o+2x0e", "5x0e+2x1o+1x2e+3x0e"),
    "fully connected": ("FullyConnectedTensorProduct", "2x0e+3x1o", "4x0e+5x1o", "6x0e+7x1o+2x1e"),
    "channelwise": ("ChannelWiseTensorProduct", "4x1o+4x1e", "0e+1o+2e", "0e+0o+1o+2e"),
    "channelwise, unsorted": ("ChannelWiseTensorProduct", "2x1e+3x0o", "1o+0e+2x1o"),
}


@pytest.mark.parametrize("name", MODULES)
def test_converted_modules_compute_the_same_with_the_same_weights(name):
    for shared, layout in itertools.product([True, False], ["mul_ir", "ir_mul"]):
        module = theirs(*MODULES[name], shared_weights=shared, layout=layout)
        ours = convert(module)
        inputs = features(ours)
        if shared:
            assert ours.weight.equal(module.weight[0])
            close(ours(*inputs), module(*inputs))
        else:
            weight = random(5, ours.weight_numel, seed=3)
            close(ours(*inputs, weight), module(*inputs, weight))
        assert ours.rep_out == from_cue_irreps(module.irreps_out, layout)


@layouts
def test_our_own_products_equal_those_of_cuequivariance_with_the_same_weights(layout):
    fully = theirs(*MODULES["fully connected"], layout=layout)
    ours = tensor_products.FullyConnectedTensorProduct(
        *MODULES["fully connected"][1:], layout=layout
    ).double()
    ours.weight = torch.nn.Parameter(fully.weight[0].detach())
    close(ours(*features(ours)), fully(*features(ours)))
    fully.float().eval().weight.requires_grad_(False)
    converted = convert(fully)
    assert not converted.training
    assert converted.weight.dtype == torch.float32
    assert not converted.weight.requires_grad
    # Natural parities only: there both libraries sort alike.
    arguments = ("4x0e+4x1o", "0e+1o+2e", "0e+1o+2e")
    channelwise = theirs(
        "ChannelWiseTensorProduct", *arguments, shared_weights=False, layout=layout
    )
    product = tensor_products.ChannelwiseTensorProduct(*arguments, layout=layout)
    weight = random(5, product.weight_numel, seed=3)
    inputs = features(product)
    close(product(*inputs, weight), channelwise(*inputs, weight))


def test_a_channelwise_product_in_the_order_of_e3nn():
    module = theirs(*MODULES["channelwise"], shared_weights=False)
    product = tensor_products.ChannelwiseTensorProduct(*MODULES["channelwise"][1:])
    converted = convert(module)
    assert product.irreps_out != converted.irreps_out
    sorted_, old = sort_irreps(converted.irreps_out, "e3nn")
    assert sorted_ == product.irreps_out
    found = [replace(path, i_out=old.index(path.i_out)) for path in converted.instructions]
    found.sort(key=lambda path: path.i_out)  # as weights by output
    for path, other in zip(found, product.instructions, strict=True):
        assert tuple(path)[:5] == tuple(other)[:5]
        assert path.path_weight == pytest.approx(other.path_weight, rel=CLOSE["rtol"])


def test_harmonics_are_converted():
    for normalize in (True, False):
        module = cuet.SphericalHarmonics([0, 1, 2, 3], normalize=normalize, method="naive")
        x = random(6, 3)
        close(convert(module)(x), module(x), scale=10.0)


def contraction(group: str, degree: int = 3, *, original_mace: bool = True, layout: str = "mul_ir"):
    return cuet.SymmetricContraction(
        to_cue_irreps("3x0e+3x1o", group),
        to_cue_irreps("3x1o+3x0e", group),
        degree,
        2,
        layout=getattr(cue, layout),
        original_mace=original_mace,
        method="naive",
        dtype=torch.float64,
    )


# The other library computes the couplings of O3_e3nn in the default dtype, float32.
@pytest.mark.parametrize(("group", "degree", "error"), [("O3", 2, 1e-14), ("O3_e3nn", 3, 1e-6)])
@pytest.mark.parametrize("basis", ["mul_ir", "ir_mul", "reduced"])
def test_contractions_are_converted(basis, group, degree, error):
    options = {"original_mace": False} if basis == "reduced" else {"layout": basis}
    module = contraction(group, degree, **options)
    ours = convert(module)
    if basis == "reduced":
        assert ours.weight.requires_grad
        assert ours.weight.shape[1] > module.weight.shape[1]
    else:
        assert ours.weight.equal(module.weight)
    x, element = random(5, 12), torch.tensor([0, 1, 1, 0, 1])
    expected = module(x, element.int())
    atol = error * expected.abs().max().item()
    torch.testing.assert_close(ours(x, element), expected, rtol=0, atol=atol)


# --- Bad input -----------------------------------------------------------------------------------


def test_layouts_that_differ_are_refused_only_where_it_matters():
    options = dict(layout_in1=cue.ir_mul, layout_in2=cue.mul_ir, layout_out=cue.ir_mul)
    for second, is_refused in (("2x1o", True), ("1x1o+2x0e", False)):
        made = [to_cue_irreps(text) for text in ("2x1o", second, "2x0e")]
        module = cuet.FullyConnectedTensorProduct(*made, method="naive", **options)
        if is_refused:
            refused("must have one layout", convert, module)
        else:
            assert convert(module).irreps_in1.layout == "ir_mul"


def test_modules_without_a_counterpart_are_refused():
    irreps = to_cue_irreps("2x1o")
    transpose = cuet.TransposeIrrepsLayout(irreps, source=cue.ir_mul, target=cue.mul_ir)
    expected = r"cannot convert .*Layout: expected one of Linear, Fully"
    refused(expected, convert, transpose, error=TypeError)
    classes = cuet.Linear(irreps, irreps, weight_classes=3, layout=cue.ir_mul)
    refused("weight_classes=3", convert, classes)
    refused("sorted as in MACE with irreps O3_e3nn only, got O3", convert, contraction("O3"))
    refused("cannot convert torch", to_descriptor, torch.nn.Linear(1, 1), error=TypeError)
    product = tensor_products.TensorProduct
    twice = [(0, 0, 0, "uvuv", True), (0, 0, 0, "uvw", True)]
    for module, message in (
        (nn.Linear("0e", "0e", biases=True), "with biases has no descriptor"),
        (tensor_products.SphericalHarmonics(2, True), "normalize=True are no polynomial"),
        (
            product("3x0e", "3x0e", "2x0e", [(0, 0, 0, "u<vw", True)]),
            r"connections \['u<vw'\] have no subscripts",
        ),
        (product("3x0e", "2x0e", "6x0e", twice), "output term 0 cannot be one segment"),
    ):
        refused(message, to_descriptor, module)


def test_polynomials_that_are_no_module_are_refused():
    vectors = to_cue_irreps("4x1o")
    product = cue.descriptors.channelwise_tensor_product(vectors, to_cue_irreps("0e+1o"))
    with pytest.raises(TypeError, match="expected an EquivariantPolynomial, got Segmented"):
        from_descriptor(product.polynomial)
    refused("couples no components", from_descriptor, product.flatten_coefficient_modes())
    ((_, paths),) = product.polynomial.operations
    bent = cue.SegmentedPolynomial.eval_last_operand(paths.modify_coefficients(lambda c: c + 1.0))
    with pytest.raises(ValueError, match="no multiple of a coupling"):
        from_descriptor(cue.EquivariantPolynomial(product.inputs, product.outputs, bent))
    with pytest.raises(ValueError, match="neither element nor path normalized"):
        from_descriptor(cue.descriptors.linear(vectors, vectors) * 2.0)
    with pytest.raises(ValueError, match="are no spherical harmonics"):
        from_descriptor(cue.descriptors.spherical_harmonics(cue.O3(1, -1), [1]) * 2.0)


@pytest.mark.parametrize("name", ["cuequivariance", "cuequivariance_torch"])
def test_a_missing_library_says_how_to_install_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"{name} cannot be imported: pip install cueq"):
        convert(torch.nn.Linear(1, 1)) if "torch" in name else to_cue_irreps("0e")
