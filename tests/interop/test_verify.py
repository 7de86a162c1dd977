"""``accelerate(model, verify=True)``: what is compared, and which errors are found."""

import copy
import json

import pytest
import torch
from torch import nn

from equigeo.interop import AccelerationReport, Certificate, accelerate
from equigeo.interop.accelerated.layers import AcceleratedLinear
from equigeo.interop.accelerated.product import AcceleratedProduct
from equigeo.interop.certificate import Check, ModuleCertificate, derivatives, largest_error
from equigeo.interop.compare_module import expanded, strided, table_precision, transposed
from tests.interop.e3nn_modules import BUILDERS, build, double_precision, o3, random, seeded
from tests.interop.library_stand_ins import (
    Contracter,
    InteractionBlock,
    IrrepsConvolution,
    MakeWeightedChannels,
    SymmetricContraction,
    TensorProductScatter,
    stand_in,
)
from tests.interop.planted_errors import PLANTED, Distorted, plant
from tests.tier import tier
from tests.wrong_inputs import refused

pytestmark = [pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning")]

FORMS = ["plain", "strided", "transposed", "expanded", "empty", "many"]


def model(*names):
    """One module of each kind, or of those named."""
    external = dict(shared_weights=False, internal_weights=False)
    uvu = [(0, 0, 0, "uvu", True), (1, 1, 0, "uvu", True), (0, 1, 1, "uvu", True)]

    def product():
        return o3.TensorProduct("4x0e+4x1o", "0e+1o", "4x0e+4x1o", uvu, **external)

    parts = {
        "harmonics": lambda: o3.SphericalHarmonics("0e+1o+2e", True, "component"),
        "product": lambda: o3.FullyConnectedTensorProduct("4x0e+2x1o", "0e+1o", "4x0e+2x1o"),
        "linear": lambda: o3.Linear("4x0e+3x1o", "4x0e+3x1o", biases=True),
        "scatter": lambda: TensorProductScatter(product()),
        "block": lambda: InteractionBlock(product()),
        "irreps": lambda: IrrepsConvolution(product()),
        "contracter": lambda: Contracter("0e+1o", "0e+1o", "0e+1o", 3),
        "channels": lambda: MakeWeightedChannels("0e+1o", 3),
        "contraction": lambda: SymmetricContraction("4x0e+4x1o", "4x0e", 2, 2),
    }
    with seeded(0):
        return nn.ModuleDict({name: parts[name]() for name in names or parts})


def test_right_replacements_pass_every_comparison(monkeypatch):
    stand_in(monkeypatch)
    module = model()
    report = accelerate(module, verify=True)
    assert not report.kept
    assert len(report.replaced) == 10
    certificate = report.certificate
    assert isinstance(certificate, Certificate)
    assert certificate.passes
    for part in certificate.modules:
        made = [(check.what, check.inputs) for check in part.checks if check.error is not None]
        for inputs_ in FORMS:
            for what in ("values", "gradients", "second gradients"):
                assert (what, inputs_) in made
        for inputs_ in ("repeated", "cast to float32", "cast to float64"):
            assert ("values", inputs_) in made
        assert ("gradients", "compiled") in made


EVERY = [(name, dtype) for name in BUILDERS for dtype in (torch.float32, torch.float64)]
SOME = [(name, torch.float32) for name in ("linear, biases", "harmonics")]


@pytest.mark.parametrize(("name", "dtype"), tier(SOME, EVERY))
def test_every_module_of_e3nn_passes(name, dtype):
    report = accelerate(build(name).to(dtype), verify=True)
    assert not report.kept, report.kept
    assert report.certificate.passes


def test_tables_that_are_rounded_are_known():
    with double_precision():
        exact = o3.TensorProduct("1o", "2e", "1o", [(0, 0, 0, "uuu", False)])
    rounded = o3.TensorProduct("1o", "2e", "1o", [(0, 0, 0, "uuu", False)]).double()
    assert table_precision(exact) == torch.float64
    assert table_precision(rounded) == torch.float32
    assert accelerate(rounded, verify=True).certificate.passes


FOUND = ["one instruction", "compiled without backward", "no edges", "random jumps", "overflow"]
FOUND += ["other axes", "changed state", "no second gradient"]


@pytest.mark.parametrize("name", tier(FOUND, [*PLANTED]))
def test_reported_errors_are_found(name, monkeypatch):
    kind, error, found_by = PLANTED[name]
    stand_in(monkeypatch)
    wrong = kind.__name__.removeprefix("Accelerated").lower()
    right = "product" if wrong == "linear" else "linear"
    theirs = model(wrong, right)
    module = copy.deepcopy(theirs)
    plant(monkeypatch, kind, error)
    if found_by != "relative error":  # silent without verification
        assert not accelerate(copy.deepcopy(theirs)).kept
    report = accelerate(module, verify=True)
    (note,) = (note for note in report.kept if note.path == wrong)
    assert note.note.startswith(found_by)
    assert type(module[wrong]) is type(theirs[wrong])
    assert list(module[wrong].state_dict()) == list(theirs[wrong].state_dict())
    assert [note.path for note in report.replaced] == [right]


def failing(call, fails):
    def fail(self, *arguments):
        if fails(len(arguments[0])):
            raise RuntimeError("some context\ncannot be computed")
        return call(self, *arguments)

    return fail


@pytest.mark.parametrize("also", [True, False])
@pytest.mark.parametrize("inputs", ["empty", "many"])
def test_an_error_of_the_original_must_be_one_of_the_replacement(inputs, also, monkeypatch):
    fails = {"empty": lambda rows: rows == 0, "many": lambda rows: rows > 1000}[inputs]
    forward, original = AcceleratedLinear.forward, AcceleratedLinear.original
    monkeypatch.setattr(AcceleratedLinear, "original", failing(original, fails))
    if also:
        monkeypatch.setattr(AcceleratedLinear, "forward", failing(forward, fails))
    report = accelerate(build("linear"), verify=True)
    checks = [c for c in report.certificate.modules[0].checks if c.inputs == inputs]
    note = "the original module fails: cannot be computed"
    passes = also or inputs == "empty"  # nothing at all is no wrong result
    assert checks[0].note == (note if passes else f"none where {note}")
    assert checks[0].error == (None if passes else float("inf"))
    assert len(report.replaced) == passes


def test_derivatives_that_the_original_has_not_are_no_error_of_the_replacement(monkeypatch):
    original = AcceleratedLinear.original
    monkeypatch.setattr(
        AcceleratedLinear, "original", lambda self, *x: Forbidden.apply(original(self, *x))
    )
    report = accelerate(build("linear"), verify=True)
    assert len(report.replaced) == 1
    notes = {check.note for check in report.certificate.modules[0].checks if check.note}
    assert notes == {"the original module fails: has no gradient"}


class Forbidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("has no gradient")


def test_a_replacement_that_fails_is_put_back_with_what_it_says(monkeypatch):
    def fail_on_many(self, x, *others):
        if len(x) > 1000:
            raise RuntimeError("out of luck")
        return self.body(x, *others)

    plant(monkeypatch, AcceleratedLinear, fail_on_many)
    module = build("linear")
    report = accelerate(module, verify=True)
    assert [note.note for note in report.kept] == ["values, many inputs: fails: out of luck"]
    assert type(module) is o3.Linear


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_verification_leaves_everything_as_it_was(mode):
    linear = build("linear, biases")
    linear.bias.requires_grad_(False)
    linear.weight.grad = torch.ones_like(linear.weight)
    calls = []
    linear.register_forward_hook(lambda *args: calls.append(args))
    state, generator = copy.deepcopy(linear.state_dict()), torch.get_rng_state()
    with mode():
        report = accelerate(linear, verify=True)
    assert len(report.replaced) == 1
    assert any(check.what == "second gradients" for check in report.certificate.modules[0].checks)
    assert linear.weight.requires_grad
    assert not linear.bias.requires_grad
    assert linear.weight.grad.equal(torch.ones_like(linear.weight))
    assert linear.bias.grad is None
    assert not calls
    assert all(linear.state_dict()[key].equal(value) for key, value in state.items())
    assert torch.get_rng_state().equal(generator)


def test_one_module_of_a_kind_is_compiled_and_on_the_meta_device_none():
    both = nn.ModuleList([build("linear"), build("linear, biases"), build("linear").to("meta")])
    report = accelerate(both, verify=True)
    assert len(report.replaced) == 3
    checks = [module.checks for module in report.certificate.modules]
    assert [[c.inputs for c in made].count("compiled") for made in checks] == [2, 0, 0]
    (check,) = checks[2]
    assert "meta" in check.note


def test_arrangements_are_not_contiguous():
    value = random(3, 4)
    for arrange in (strided, transposed, expanded):
        got = arrange(value)
        assert got.shape == value.shape
        assert not got.is_contiguous()
        assert got.equal(value) or arrange is expanded


def test_derivatives_are_those_of_autograd():
    x, weight = random(2, 3), random(3, seed=1).requires_grad_()

    def call(x):
        return (x * weight).square()

    found = derivatives(call, [x], [weight], lambda value: value)
    cotangent = random(2, 3, seed=10)
    torch.testing.assert_close(found["values"][0], call(x))
    torch.testing.assert_close(found["gradients"][0], 2 * x * weight**2 * cotangent)
    torch.testing.assert_close(found["gradients"][1], (2 * x**2 * weight * cotangent).sum(0))
    directions = random(2, 3, seed=11), random(3, seed=12)
    to_cotangent = 2 * x * weight**2 * directions[0] + 2 * x**2 * weight * directions[1]
    torch.testing.assert_close(found["second gradients"][2], to_cotangent)


def test_errors_are_relative_and_never_missing():
    one = torch.ones(3)
    assert largest_error([one * 1.5], [one]) == pytest.approx(0.5)
    assert largest_error([one * torch.nan], [one]) == float("inf")
    assert largest_error([one[:2]], [one]) == float("inf")
    assert largest_error([one.double()], [one]) == float("inf")
    assert largest_error([], []) == 0.0


class Potential(nn.Module):
    """Energy of a cluster by harmonics, a product and a readout, from all pairs within a cutoff."""

    def __init__(self):
        super().__init__()
        self.harmonics = o3.SphericalHarmonics("0e+1o+2e", True, "component")
        self.embed = nn.Embedding(2, 4)
        self.product = o3.FullyConnectedTensorProduct("4x0e", "0e+1o+2e", "4x0e+4x1o+4x2e")
        self.square = o3.FullyConnectedTensorProduct(
            "4x0e+4x1o+4x2e", "4x0e+4x1o+4x2e", "4x0e", irrep_normalization="norm"
        )
        self.readout = o3.Linear("4x0e", "0e")

    def forward(self, positions, kinds):
        vectors = positions[:, None] - positions
        distances = torch.sqrt(vectors.square().sum(-1) + torch.eye(len(positions)))
        near = (distances < 3.0) & ~torch.eye(len(positions), dtype=torch.bool)
        source, target = near.nonzero().T
        length = distances[source, target][:, None]
        smooth = torch.exp(-length) * (1 - (length / 3.0) ** 2) ** 4
        attributes = self.harmonics(vectors[source, target]) * smooth
        messages = self.product(self.embed(kinds)[source], attributes)
        x = messages.new_zeros(len(positions), messages.shape[1]).index_add(0, target, messages)
        return self.readout(self.square(x, x) + self.embed(kinds)).sum()

    def of_kinds(self, positions, index):
        return self(positions, KINDS[index])


@pytest.fixture
def potential():
    with seeded(0):
        return Potential()


POSITIONS = 2.2 * torch.tensor(
    [[0.0, 0.0, 0.1], [1.0, 0.1, 0.0], [0.0, 1.0, 0.2], [0.2, 0.1, 1.0], [1.0, 0.9, 0.8]],
    dtype=torch.float64,
)
KINDS = torch.tensor([0, 1, 1, 0, 1])


@pytest.mark.parametrize("dtype", tier([torch.float32], [torch.float32, torch.float64]))
def test_a_right_acceleration_keeps_the_energy(potential, dtype):
    potential.to(dtype)
    report = accelerate(
        potential, verify=True, energy=potential.of_kinds, positions=POSITIONS.to(dtype)
    )
    assert len(report.replaced) == 4
    laws = {(check.what, check.inputs): check for check in report.certificate.laws}
    for inputs_ in ("plain", "strided", "one-atom"):
        for what in ("values", "gradients", "second gradients"):
            assert laws[f"energy, {what}", inputs_].error is not None
    assert report.certificate.passes
    assert "energy of the model: 9 checks pass" in str(report.certificate)


NEAR = int((torch.cdist(POSITIONS, POSITIONS) < 3.0).sum()) - len(POSITIONS)


def wrong_in_the_model(self, x, y, weight):
    """Wrong forces for one number of rows, which no comparison of modules has."""
    y = Distorted.apply(y, y.new_tensor(1.01)) if len(x) == NEAR else y
    return self.body(x, y, weight)


def test_modules_that_change_the_energy_are_put_back(potential, monkeypatch):
    plant(monkeypatch, AcceleratedProduct, wrong_in_the_model)
    report = accelerate(potential, verify=True, energy=potential.of_kinds, positions=POSITIONS)
    (note,) = report.kept
    assert note.path == "product"
    assert note.note.startswith("changes the model: energy, gradients, plain inputs")
    assert [note.path for note in report.replaced] == ["harmonics", "square", "readout"]
    assert all(check.passes for check in report.certificate.laws)


def test_an_energy_that_fails_for_one_atom_is_no_error_of_the_replacement():
    with double_precision():
        readout = o3.Linear("2x0e", "0e")

    def several(positions, index):
        if len(positions) < 2:
            raise RuntimeError("no edges")
        near = torch.exp(-torch.pdist(positions).square())
        return readout(torch.stack([near, near.square()], dim=1)).sum()

    report = accelerate(readout, verify=True, energy=several, positions=POSITIONS)
    assert len(report.replaced) == 1
    notes = {check.inputs: check.note for check in report.certificate.laws}
    assert notes["one-atom"] == "failed before: no edges"


def test_arguments_that_mean_nothing_are_refused():
    linear, energy = build("linear"), torch.sum
    for options, kind, message in (
        (dict(energy=energy), ValueError, "given together, got no positions"),
        (dict(positions=POSITIONS), ValueError, "given together, got no energy"),
        (dict(energy=energy, positions=POSITIONS, verify=False), ValueError, "need verify=True"),
        (dict(energy=energy, positions=POSITIONS[0]), ValueError, r"must be \(atoms, 3\)"),
        (dict(energy=energy, positions=POSITIONS[:0]), ValueError, r"must be \(atoms, 3\)"),
        (dict(energy=energy, positions=POSITIONS.long()), TypeError, "must be floating"),
    ):
        refused(message, accelerate, linear, error=kind, **{"verify": True, **options})
    assert type(linear) is o3.Linear


def test_the_certificate_is_written_as_json_and_named_in_the_report():
    linear = build("linear")
    report = accelerate(linear, verify=True)
    assert str(report).splitlines()[-1] == "verified: 1 of 1 modules pass"
    assert repr(report) == (
        "AccelerationReport(1 replaced, 0 kept, Certificate(1 modules, 0 laws, passes))"
    )
    assert accelerate(linear).certificate is None
    assert repr(AccelerationReport((), ())) == "AccelerationReport(0 replaced, 0 kept)"
    document = json.loads(report.certificate.to_json())
    assert list(document) == ["format", "equigeo", "torch", "passes", "modules", "laws"]
    assert document["format"] == "equigeo/certificate/1"
    assert document["torch"] == torch.__version__
    assert document["passes"] is True
    (module,) = document["modules"]
    assert (module["path"], module["kind"], module["passes"]) == ("", "Linear", True)
    assert module["runs_on"] == "equigeo.nn.Linear"
    assert {check["inputs"] for check in module["checks"]} >= set(FORMS)
    assert set(module["checks"][0]) == {"what", "inputs", "error", "tolerance", "note", "passes"}


def test_a_certificate_that_does_not_pass_says_so():
    check = Check("values", "many", float("inf"), 1e-5)
    failed = ModuleCertificate("a.b", "Linear", "nn.Linear", (check,))
    certificate = Certificate((failed,), (Check("energy", "plain", None, 1.0, "why"),))
    assert not certificate.passes
    assert str(certificate).splitlines() == [
        "0 of 1 modules pass",
        "  a.b  Linear  fails: values, many inputs: error inf exceeds 1.0e-05",
        "energy of the model: nothing could be compared",
    ]
    assert repr(certificate) == "Certificate(1 modules, 1 laws, does not pass)"
    assert json.loads(certificate.to_json())["modules"][0]["checks"][0]["error"] == "inf"
