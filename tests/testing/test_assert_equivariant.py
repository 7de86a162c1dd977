"""The helper accepts laws that hold, refuses laws that do not, and refuses to be fooled."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from equigeo.groups import SO, Affine, GLPlus, O, Similarity
from equigeo.mesh import TriangleMesh
from equigeo.reps import Irreps, Points, Representation, TensorRep, Trivial
from equigeo.testing import assert_equivariant, equivariance_error
from tests.draws import generator, random
from tests.wrong_inputs import refused

VECTOR = Irreps("1o")
MOTIONS = Affine(O(3))


def area(mesh: TriangleMesh) -> Tensor:
    a, b, c = mesh.vertices[mesh.faces].unbind(1)
    return torch.linalg.cross(b - a, c - a).norm(dim=-1).sum() / 2


def blob() -> TriangleMesh:
    return TriangleMesh(random(20, 3), torch.arange(18).reshape(6, 3))


class MixChannels(nn.Module):
    """A linear map between copies of one irrep: equivariant by Schur's lemma."""

    def __init__(self, layout: str) -> None:
        super().__init__()
        self.rep_in = Irreps("4x2e", layout)
        self.rep_out = Irreps("3x2e", layout)
        self.weight = nn.Parameter(random(3, 4, dtype=torch.get_default_dtype()))

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
    assert_equivariant(inertia, Points(Affine(GLPlus(3))), tensor, inputs=[random(9, 3)])


def test_volume_is_a_density_under_linear_maps():
    def volume(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.linalg.det(torch.stack([a, b, c], -1)).abs()[..., None]

    vector, density = TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=0, density=1.0)
    inputs = [random(5, 3, seed=k) for k in range(3)]
    assert_equivariant(volume, [vector] * 3, density, inputs=inputs)
    assert equivariance_error(volume, [vector] * 3, Trivial(GLPlus(3), 1), inputs=inputs) > 0.1


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_a_module_declares_itself(layout):
    layer = MixChannels(layout)
    x = random(6, 20, dtype=torch.float32)
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
    assert_equivariant(offsets, reps, VECTOR, inputs=[random(4, 3), source, target])


def test_several_outputs_and_integer_outputs():
    def describe(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        radius = (x - x.mean(0)).norm(dim=-1)
        return x.mean(0), radius, radius.argsort()

    outputs = [Points(MOTIONS), Trivial(MOTIONS, 7), Trivial(MOTIONS, 7)]
    assert_equivariant(describe, Points(MOTIONS), outputs, inputs=[random(7, 3)])


def test_gradients_inside_the_function_work():
    def force(x: Tensor) -> Tensor:
        x = x.requires_grad_()
        energy = torch.cdist(x, x).square().sum().sqrt()
        return -torch.autograd.grad(energy, x)[0]

    assert_equivariant(force, Points(MOTIONS), VECTOR, inputs=[random(6, 3)], condition=10)


def test_functions_that_write_to_arguments_or_outputs_are_judged_fairly():
    inputs, state = [random(4, 3)], torch.get_rng_state()
    before = inputs[0].clone()
    assert_equivariant(lambda x: x.mul_(2.0), VECTOR, VECTOR, inputs=inputs)
    assert torch.equal(inputs[0], before)
    reps: list[Representation | None] = [VECTOR, None]
    for _ in range(2):
        assert_equivariant(lambda x, w: x * w.add_(1.0), reps, VECTOR, inputs=[before, random(1)])
    assert torch.equal(state, torch.get_rng_state())
    memory, one = torch.empty(4, 1, dtype=torch.float64), Trivial(O(3), 1)
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(lambda x: memory.copy_(x[:, :1]), VECTOR, one, inputs=inputs)


# laws that do not hold


X, SINGLE = random(5, 3), random(5, 3, dtype=torch.float32)


@pytest.mark.parametrize(
    ("match", "fn", "rep_in", "rep_out", "inputs"),
    [
        ("exceeds", lambda x: x + 1e-9, VECTOR, VECTOR, [X]),
        ("exceeds", lambda x: x + 1e-3, VECTOR, VECTOR, [SINGLE]),
        ("exceeds", lambda x: 1e-30 * (x + 0.1), VECTOR, VECTOR, [X]),  # relative to the output
        ("relative error inf", lambda x: x / 0.0 * 0.0, VECTOR, VECTOR, [X]),
        ("inf", lambda x: x[x[:, 0] > 0], VECTOR, VECTOR, [random(40, 3)]),  # of another shape
        ("output 1", lambda x: (x, x), VECTOR, [VECTOR, Trivial(O(3), 3)], [X]),
        ("relative error 1", lambda x: x.argsort(-1), VECTOR, Trivial(O(3), 3), [random(50, 3)]),
        ("Similarity", area, None, Trivial(Affine(Similarity(3)), 1), [blob()]),
        # The dtype of an argument that stays fixed loosens nothing.
        ("exceeds", lambda x, _: x + 0.01, [VECTOR, None], VECTOR, [SINGLE, SINGLE.bfloat16()]),
    ],
)
def test_broken_laws_are_found(match, fn, rep_in, rep_out, inputs):
    refused(match, assert_equivariant, fn, rep_in, rep_out, inputs=inputs, error=AssertionError)


def test_cross_product_is_no_vector_but_under_rotations():
    law = torch.linalg.cross, [VECTOR, VECTOR], VECTOR
    inputs = [random(16, 3), random(16, 3, seed=1)]
    message = r"output 0 is not equivariant under O\(3\): relative error 2 .* determinant -1, g ="
    refused(message, assert_equivariant, *law, inputs=inputs, error=AssertionError)
    turns = SO(3).haar(2, generator=generator(3))
    assert_equivariant(*law, inputs=inputs, elements=turns.float())


# declarations that say nothing or do not fit


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "inputs", "match"),
    [
        (Trivial(O(3), 3), Trivial(O(3), 3), [random(2, 3)], "trivial"),
        (Irreps("3x0e"), Irreps("3x0e"), [random(2, 3)], "trivial"),
        (None, Trivial(O(3), 3), [random(2, 3)], "trivial"),
        (Irreps("3x0o").restrict(SO(3)), Trivial(SO(3), 3), [random(2, 3)], "trivial"),
        (VECTOR, None, [random(2, 3)], "rep_out must name"),
        (VECTOR, [None], [random(2, 3)], r"invariant output by Trivial\(group, dim\)"),
        (VECTOR, VECTOR, [random(2, 3), random(2, 3)], "got 1 for 2 inputs"),
        ([VECTOR, None], VECTOR, [random(2, 3)], "got 2 for 1 inputs"),
        (VECTOR, [VECTOR, VECTOR], [random(2, 3)], "2 outputs are declared, got 1"),
        (VECTOR, VECTOR, [random(2, 4)], r"features of Irreps\('1x1o'\) are \(\.\.\., 3\)"),
        (VECTOR, Irreps("2e"), [random(2, 3)], r"are \(\.\.\., 5\)"),
        (VECTOR, TensorRep(O(2)), [random(2, 3)], r"no declared group acts.*O\(2\), O\(3\)"),
        (Points(O(3)), Points(MOTIONS), [random(2, 3)], "has no action of translations"),
        (VECTOR, VECTOR, [blob()], "TriangleMesh has its own action"),
        (VECTOR, VECTOR, [torch.zeros(2, 3)], "every output is zero or empty"),
        (VECTOR, VECTOR, [torch.zeros(0, 3)], "every output is zero or empty"),
    ],
)
def test_declarations_without_content_are_refused(rep_in, rep_out, inputs, match):
    refused(match, assert_equivariant, lambda x, *_: x, rep_in, rep_out, inputs=inputs)


def test_arguments_and_outputs_of_wrong_type_raise():
    same, law = partial(assert_equivariant, lambda x: x), (VECTOR, VECTOR)
    refused("inputs must be a sequence", same, *law, inputs=X, error=TypeError)
    refused("must be a floating tensor", same, *law, inputs=[X.long()], error=TypeError)
    refused("must be a floating tensor, got str", same, *law, inputs=["x"], error=TypeError)
    message = "rep_in must hold representations"
    refused(message, same, [1], VECTOR, inputs=[X], error=TypeError)
    call = partial(assert_equivariant, inputs=[X])
    message = "outputs must be tensors, got float"
    refused(message, call, lambda x: float(x.sum()), *law, error=TypeError)
    refused("can only be invariant", call, lambda x: x.long(), *law, error=TypeError)


def test_outputs_and_elements_without_content_raise():
    call = partial(assert_equivariant, inputs=[X])
    refused("output 1 is zero", call, lambda x: (x, 0 * x), VECTOR, [VECTOR, VECTOR])
    eye, same = torch.eye(3)[None], (lambda x: x, VECTOR, VECTOR)
    refused("more than the identity", call, *same, elements=eye)
    refused(r"elements must belong to O\(3\)", call, *same, elements=2 * eye)
    for elements in (eye[0], eye[:0]):
        refused(r"elements must be \(elements, 3, 3\)", call, *same, elements=elements)


# the measured error


def test_texts_stand_for_irreps():
    x = random(4, 6)
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
    x = random(1, 3)

    def pooled(samples: int) -> float:
        turns = SO(3).haar(samples, generator=generator(samples))

        def layer(x: Tensor) -> Tensor:
            return torch.relu((turns @ x[0])[:, :1]).mean(0)

        vector = VECTOR.restrict(SO(3))
        return equivariance_error(layer, vector, Trivial(SO(3), 1), inputs=[x])

    slope = math.log(pooled(64_000) / pooled(40)) / math.log(64_000 / 40)
    assert -0.8 < slope < -0.25
