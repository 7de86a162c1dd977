"""The helper accepts laws that hold, refuses laws that do not, and refuses to be fooled."""

import math

import pytest
import torch
from torch import Tensor, nn

from equigeo.groups import SO, Affine, GLPlus, O, Similarity
from equigeo.mesh import TriangleMesh
from equigeo.reps import Irreps, Points, Representation, TensorRep, Trivial
from equigeo.testing import assert_equivariant, equivariance_error

VECTOR = Irreps("1o")
MOTIONS = Affine(O(3))


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def area(mesh: TriangleMesh) -> Tensor:
    a, b, c = mesh.vertices[mesh.faces].unbind(1)
    return torch.linalg.cross(b - a, c - a).norm(dim=-1).sum() / 2


def blob() -> TriangleMesh:
    return TriangleMesh(draw(20, 3), torch.arange(18).reshape(6, 3))


class MixChannels(nn.Module):
    """A linear map between copies of one irrep: equivariant by Schur's lemma."""

    def __init__(self, layout: str) -> None:
        super().__init__()
        self.rep_in = Irreps("4x2e", layout)
        self.rep_out = Irreps("3x2e", layout)
        self.weight = nn.Parameter(draw(3, 4, dtype=torch.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        if self.rep_in.layout == "mul_ir":
            return (self.weight @ x.unflatten(-1, (4, 5))).flatten(-2)
        return (x.unflatten(-1, (5, 4)) @ self.weight.T).flatten(-2)


# laws that hold


def test_inertia_is_a_tensor_of_two_upper_indices():
    def inertia(x: Tensor) -> Tensor:
        centred = x - x.mean(0)
        return (centred.T @ centred).flatten()

    tensor = TensorRep(Affine(GLPlus(3)), up=2)
    assert_equivariant(inertia, Points(Affine(GLPlus(3))), tensor, inputs=[draw(9, 3)])


def test_volume_is_a_density_under_linear_maps():
    def volume(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.linalg.det(torch.stack([a, b, c], -1)).abs()[..., None]

    vector, density = TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=0, density=1.0)
    inputs = [draw(5, 3, seed=k) for k in range(3)]
    assert_equivariant(volume, [vector] * 3, density, inputs=inputs)
    assert equivariance_error(volume, [vector] * 3, Trivial(GLPlus(3), 1), inputs=inputs) > 0.1


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_a_module_declares_itself(layout):
    layer = MixChannels(layout)
    x = draw(6, 20, dtype=torch.float32)
    assert_equivariant(layer, inputs=[x])
    other = Irreps("3x2e", "ir_mul" if layout == "mul_ir" else "mul_ir")
    with pytest.raises(AssertionError):
        assert_equivariant(layer, rep_out=other, inputs=[x])


def test_objects_move_by_their_own_action():
    assert_equivariant(area, rep_out=Trivial(MOTIONS, 1), inputs=[blob()])
    assert_equivariant(lambda m: m.vertices.mean(0), rep_out=Points(MOTIONS), inputs=[blob()])


def test_fixed_arguments_stay():
    source, target = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0])

    def offsets(x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return x[source] - x[target]

    reps: list[Representation | None] = [Points(MOTIONS), None, None]
    assert_equivariant(offsets, reps, VECTOR, inputs=[draw(4, 3), source, target])


def test_several_outputs_and_integer_outputs():
    def describe(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        radius = (x - x.mean(0)).norm(dim=-1)
        return x.mean(0), radius, radius.argsort()

    outputs = [Points(MOTIONS), Trivial(MOTIONS, 7), Trivial(MOTIONS, 7)]
    assert_equivariant(describe, Points(MOTIONS), outputs, inputs=[draw(7, 3)])


def test_gradients_inside_the_function_work():
    def force(x: Tensor) -> Tensor:
        x = x.requires_grad_()
        energy = torch.cdist(x, x).square().sum().sqrt()
        return -torch.autograd.grad(energy, x)[0]

    assert_equivariant(force, Points(MOTIONS), VECTOR, inputs=[draw(6, 3)], condition=10)


def test_a_function_that_writes_to_its_argument_is_judged_fairly():
    inputs = [draw(4, 3)]
    before = inputs[0].clone()
    assert_equivariant(lambda x: x.mul_(2.0), VECTOR, VECTOR, inputs=inputs)
    assert torch.equal(inputs[0], before)
    reps: list[Representation | None] = [VECTOR, None]
    for _ in range(2):
        assert_equivariant(lambda x, w: x * w.add_(1.0), reps, VECTOR, inputs=[before, draw(1)])


def test_global_randomness_is_left_alone():
    state = torch.get_rng_state()
    assert_equivariant(lambda x: 2 * x, VECTOR, VECTOR, inputs=[draw(8, 3)])
    assert torch.equal(state, torch.get_rng_state())


# laws that do not hold


def refuse(match: str, fn, rep_in, rep_out, *inputs, **options) -> None:
    with pytest.raises(AssertionError, match=match):
        assert_equivariant(fn, rep_in, rep_out, inputs=list(inputs), **options)


def test_cross_product_is_no_vector():
    x, y = draw(16, 3), draw(16, 3, seed=1)
    message = r"output 0 is not equivariant under O\(3\): relative error 2 .* determinant -1, g ="
    refuse(message, torch.linalg.cross, [VECTOR, VECTOR], VECTOR, x, y)


def test_a_small_error_is_found():
    refuse("exceeds", lambda x: x + 1e-9, VECTOR, VECTOR, draw(5, 3))
    refuse("exceeds", lambda x: x + 1e-3, VECTOR, VECTOR, draw(5, 3, dtype=torch.float32))


def test_the_scale_of_the_output_hides_nothing():
    refuse("exceeds", lambda x: 1e-30 * (x + 0.1), VECTOR, VECTOR, draw(5, 3))


def test_area_is_not_invariant_under_scaling():
    with pytest.raises(AssertionError, match="Similarity"):
        assert_equivariant(area, rep_out=Trivial(Affine(Similarity(3)), 1), inputs=[blob()])


def test_nan_and_changing_shapes_violate_every_law():
    refuse("relative error inf", lambda x: x / 0.0 * 0.0, VECTOR, VECTOR, draw(5, 3))
    refuse("inf", lambda x: x[x[:, 0] > 0], VECTOR, VECTOR, draw(40, 3))


def test_a_wrong_tuple_entry_is_named():
    out = [VECTOR, Trivial(O(3), 3)]
    refuse("output 1", lambda x: (x, x), VECTOR, out, draw(5, 3))


def test_changing_integers_are_found():
    refuse("relative error 1", lambda x: x.argsort(-1), VECTOR, Trivial(O(3), 3), draw(50, 3))


def test_chosen_elements_replace_the_default():
    turn = SO(3).haar(2, generator=torch.Generator().manual_seed(3))
    inputs = [draw(4, 3), draw(4, 3, seed=1)]
    assert_equivariant(
        torch.linalg.cross, [VECTOR, VECTOR], VECTOR, inputs=inputs, elements=turn.float()
    )


# declarations that say nothing or do not fit


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "inputs", "match"),
    [
        (Trivial(O(3), 3), Trivial(O(3), 3), [draw(2, 3)], "trivial"),
        (Irreps("3x0e"), Irreps("3x0e"), [draw(2, 3)], "trivial"),
        (None, Trivial(O(3), 3), [draw(2, 3)], "trivial"),
        (Irreps("3x0o").restrict(SO(3)), Trivial(SO(3), 3), [draw(2, 3)], "trivial"),
        (VECTOR, None, [draw(2, 3)], "rep_out must name"),
        (VECTOR, [None], [draw(2, 3)], r"invariant output by Trivial\(group, dim\)"),
        (VECTOR, VECTOR, [draw(2, 3), draw(2, 3)], "got 1 for 2 inputs"),
        ([VECTOR, None], VECTOR, [draw(2, 3)], "got 2 for 1 inputs"),
        (VECTOR, [VECTOR, VECTOR], [draw(2, 3)], "2 outputs are declared, got 1"),
        (VECTOR, VECTOR, [draw(2, 4)], r"features of Irreps\('1x1o'\) are \(\.\.\., 3\)"),
        (VECTOR, Irreps("2e"), [draw(2, 3)], r"are \(\.\.\., 5\)"),
        (VECTOR, TensorRep(O(2)), [draw(2, 3)], r"no declared group acts.*O\(2\), O\(3\)"),
        (Points(O(3)), Points(MOTIONS), [draw(2, 3)], "has no action of translations"),
        (VECTOR, VECTOR, [blob()], "TriangleMesh has its own action"),
        (VECTOR, VECTOR, [torch.zeros(2, 3)], "every output is zero or empty"),
        (VECTOR, VECTOR, [torch.zeros(0, 3)], "every output is zero or empty"),
    ],
)
def test_declarations_without_content_are_refused(rep_in, rep_out, inputs, match):
    with pytest.raises(ValueError, match=match):
        assert_equivariant(lambda x, *_: x, rep_in, rep_out, inputs=inputs)


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "inputs", "match"),
    [
        (VECTOR, VECTOR, draw(2, 3), "inputs must be a sequence"),
        (VECTOR, VECTOR, [torch.ones(2, 3).long()], "must be a floating tensor"),
        (VECTOR, VECTOR, ["x"], "must be a floating tensor, got str"),
        ([1], VECTOR, [draw(2, 3)], "rep_in must hold representations"),
    ],
)
def test_arguments_of_wrong_type_are_refused(rep_in, rep_out, inputs, match):
    with pytest.raises(TypeError, match=match):
        assert_equivariant(lambda x: x, rep_in, rep_out, inputs=inputs)


def test_outputs_of_wrong_type_are_refused():
    with pytest.raises(TypeError, match="outputs must be tensors, got float"):
        assert_equivariant(lambda x: float(x.sum()), VECTOR, VECTOR, inputs=[draw(3)])
    with pytest.raises(TypeError, match="can only be invariant"):
        assert_equivariant(lambda x: x.long(), VECTOR, VECTOR, inputs=[draw(3)])


def test_a_function_that_writes_into_its_last_output_is_judged_fairly():
    memory = torch.empty(4, 1, dtype=torch.float64)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(
            lambda x: memory.copy_(x[:, :1]), VECTOR, Trivial(O(3), 1), inputs=[draw(4, 3)]
        )


def test_the_dtype_of_what_stays_fixed_loosens_nothing():
    fixed = draw(1, dtype=torch.bfloat16)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(
            lambda x, _: x + 0.01, [VECTOR, None], VECTOR, inputs=[draw(9, 3).float(), fixed]
        )


def test_one_output_that_is_zero_is_refused_beside_others():
    with pytest.raises(ValueError, match="output 1 is zero"):
        assert_equivariant(lambda x: (x, 0 * x), VECTOR, [VECTOR, VECTOR], inputs=[draw(3)])


@pytest.mark.parametrize(
    ("elements", "match"),
    [
        (torch.eye(3)[None], "more than the identity"),
        (2 * torch.eye(3)[None], r"elements must belong to O\(3\)"),
        (torch.eye(3), r"elements must be \(elements, 3, 3\)"),
        (torch.zeros(0, 3, 3), r"elements must be \(elements, 3, 3\)"),
    ],
)
def test_elements_without_content_are_refused(elements, match):
    with pytest.raises(ValueError, match=match):
        assert_equivariant(lambda x: x, VECTOR, VECTOR, inputs=[draw(3)], elements=elements)


# the measured error


def test_texts_stand_for_irreps():
    x = draw(4, 6)
    assert_equivariant(lambda x: 2 * x, "2x1o", "2x1o", inputs=[x])
    assert_equivariant(lambda x: (2 * x, x), ["2x1o"], ["2x1o", "2x1o"], inputs=[x])
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(lambda x: 2 * x, "2x1o", "2x1e", inputs=[x])


def test_error_is_relative_to_the_largest_expected_component():
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))[None]
    x = torch.tensor([[4.0, 0.0, 0.0]], dtype=torch.float64)
    error = equivariance_error(lambda x: x + 1, VECTOR, VECTOR, inputs=[x], elements=mirror)
    assert error == pytest.approx(2 / 5)  # (-3, 1, 1) against (-5, 1, 1)


def test_error_of_a_sampled_layer_falls_with_the_number_of_samples():
    x = draw(1, 3)

    def pooled(samples: int) -> float:
        turns = SO(3).haar(samples, generator=torch.Generator().manual_seed(samples))

        def layer(x: Tensor) -> Tensor:
            return torch.relu((turns @ x[0])[:, :1]).mean(0)

        vector = VECTOR.restrict(SO(3))
        return equivariance_error(layer, vector, Trivial(SO(3), 1), inputs=[x])

    slope = math.log(pooled(64_000) / pooled(40)) / math.log(64_000 / 40)
    assert -0.8 < slope < -0.25
