"""What products of even paths cannot learn."""

import pytest
import torch

from equigeo.examples.tetris import PIECES, TetrisNet, main, tetris_pieces, train_tetris
from equigeo.groups import O
from tests.filled_later import filled_later

STEPS = 100
SETTLED = 30  # last steps, each on other rotations
PREDICTED = {"full": [0, 1], "gaunt+curl": [0, 1], "gaunt": [0, 0]}


def test_a_network_comes_back_from_the_meta_device():
    network, pieces = TetrisNet("full", multiplicity=2, layers=1), tetris_pieces()
    assert torch.equal(filled_later(network)(pieces), network(pieces))


@pytest.mark.parametrize("product", PREDICTED)
def test_only_products_with_odd_paths_tell_mirror_images_apart(product):
    result, pieces = train_tetris(product, steps=STEPS, seed=1), tetris_pieces()
    wanted = 7 / 8 if product == "gaunt" else 1
    assert set(result.accuracies[-SETTLED:]) == {wanted}
    assert max(result.accuracies) == wanted
    with torch.no_grad():
        logits, reflected = result.model(pieces), result.model(-pieces)
    assert logits.argmax(-1).tolist() == [*PREDICTED[product], *range(2, 8)]
    assert torch.equal(logits[:, 0], logits[:, 1]) == (product == "gaunt")
    assert reflected.argmax(-1).tolist() == [*reversed(PREDICTED[product]), *range(2, 8)]


def test_logits_are_invariant_under_rotations_and_swapped_by_reflections():
    model, pieces = TetrisNet("gaunt+curl", multiplicity=2).double(), tetris_pieces(torch.float64)
    swapped = [1, 0, *range(2, 8)]
    logits = model(pieces)
    for g in O(3).haar(6, generator=torch.Generator().manual_seed(0)):
        wanted = logits if torch.linalg.det(g) > 0 else logits[:, swapped]
        torch.testing.assert_close(model(pieces @ g.mT), wanted)


def test_the_first_two_pieces_are_mirror_images():
    pieces = tetris_pieces(torch.float64)

    def shape(piece):
        return torch.cdist(piece, piece).flatten().sort().values

    torch.testing.assert_close(shape(pieces[0]), shape(pieces[1]))
    assert len({tuple(shape(piece).tolist()) for piece in pieces[1:].round(decimals=6)}) == 7
    assert all(len(piece) == len(set(piece)) == 4 for piece in PIECES)


def test_a_seed_decides_everything_and_leaves_the_callers_random_numbers_alone():
    state = torch.random.get_rng_state()
    models = [train_tetris("gaunt", multiplicity=2, steps=3, seed=seed).model for seed in (1, 1, 2)]
    assert torch.equal(torch.random.get_rng_state(), state)
    first, again, other = (torch.cat([p.flatten() for p in m.parameters()]) for m in models)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_command_says_what_was_learned_and_knows_its_products(capsys):
    main(["--product", "gaunt", "--steps", "2"])
    out = capsys.readouterr().out
    assert "gaunt: " in out
    assert "of 8 after 2 steps" in out
    assert "predicted, reflected" in out
    with pytest.raises(SystemExit):
        main(["--product", "gauntlet"])
    assert "invalid choice: 'gauntlet'" in capsys.readouterr().err
