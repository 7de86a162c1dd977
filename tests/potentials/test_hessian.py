from itertools import product as product_of

import pytest
import torch
from torch.testing import assert_close

from equigeo.potentials import hessian, hessian_vector_product
from tests.potentials.systems import CRYSTAL, MOLECULE, NUMBERS, POSITIONS, batch_of, potential
from tests.tier import tier

PRODUCTS = ("channelwise", "full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal", "so2")
SMALL = {"rtol": 0.0, "atol": 1e-10}  # eV/angstrom^2, specification 2.4


SYSTEMS = {"molecule": MOLECULE, "crystal": CRYSTAL}
CASES = [("molecule", "channelwise"), *(("crystal", product) for product in PRODUCTS)]


@pytest.mark.parametrize(("system", "product"), tier(CASES, [*product_of(SYSTEMS, PRODUCTS)]))
def test_hessians_are_symmetric_derivatives_of_forces(system, product):
    model, batch = potential(product=product), batch_of(SYSTEMS[system])
    matrix = hessian(model, batch)
    assert_close(matrix, matrix.T, **SMALL)
    assert_close(matrix.unflatten(1, (-1, 3)).sum(1), torch.zeros(len(matrix), 3).double(), **SMALL)
    step = torch.zeros_like(batch.positions)
    step[1, 2] = 1e-5
    high, low = (model(batch.with_positions(batch.positions + s * step)).forces for s in (1, -1))
    # Central differences: step^2 / 6 = 1.7e-11 of a fourth derivative of some hundreds at most, and
    # rounding of forces of order one, 1e-15, over the step.
    assert_close(matrix[5], ((low - high) / 2e-5).flatten(), rtol=0.0, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # by PyTorch itself
@pytest.mark.parametrize("product", tier(["channelwise", "gaunt+curl", "so2"], PRODUCTS))
def test_torch_func_gives_the_same_hessian(product):
    model, batch = potential(product=product), batch_of(MOLECULE)

    def energy(positions):
        return model.energies(batch.with_positions(positions)).sum()

    want = hessian(model, batch)
    by_reverse = torch.func.jacrev(torch.func.grad(energy))(batch.positions)
    assert_close(by_reverse.reshape(want.shape), want, **SMALL)
    by_forward = torch.func.hessian(energy)(batch.positions)
    assert_close(by_forward.reshape(want.shape), want, **SMALL)


def test_products_with_displacements_are_those_with_the_matrix():
    model, batch = potential(), batch_of(MOLECULE)
    vectors = torch.randn(2, 6, 3, dtype=torch.float64)
    want = (hessian(model, batch) @ vectors.flatten(1).T).T.reshape(vectors.shape)
    assert_close(hessian_vector_product(model, batch, vectors), want)
    assert_close(hessian_vector_product(model, batch, vectors[0]), want[0])


def test_systems_of_a_batch_do_not_meet():
    model, vectors = potential(), torch.randn(8, 3, dtype=torch.float64)
    both = hessian_vector_product(model, batch_of(MOLECULE, CRYSTAL), vectors)
    assert_close(both[:6], hessian_vector_product(model, batch_of(MOLECULE), vectors[:6]))
    assert_close(both[6:], hessian_vector_product(model, batch_of(CRYSTAL), vectors[6:]))


def test_chunks_and_contexts_change_nothing():
    model = potential().train()
    want = hessian(model, batch_of(MOLECULE))
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert_close(hessian(model, batch_of(MOLECULE), chunk_size=5), want)


def test_an_atom_alone_has_no_curvature():
    alone = batch_of((NUMBERS[:1], POSITIONS[:1], None, False))
    assert not hessian(potential(), alone).any()
    assert hessian(potential(), batch_of((NUMBERS[:0], POSITIONS[:0], None, False))).shape == (0, 0)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="one system, got 2"):
        hessian(potential(), batch_of(MOLECULE, CRYSTAL))
    with pytest.raises(ValueError, match="chunk_size must be positive"):
        hessian(potential(), batch_of(MOLECULE), chunk_size=0)
    with pytest.raises(ValueError, match="vectors must be"):
        hessian_vector_product(potential(), batch_of(MOLECULE), torch.zeros(5, 3))
