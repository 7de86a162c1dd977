import pytest
import torch
from torch.nn.utils.parametrize import is_parametrized

from equigeo.potentials import MessagePassingPotential
from equigeo.potentials.tuning import Heads, add_low_rank, freeze, species_tables, with_species
from equigeo.testing import tolerance
from equigeo.training.loop.module import plain_state
from tests.potentials.systems import CRYSTAL, MOLECULE, SPECIES, batch_of, potential

# Every product and every nonlinearity occurs.
MODELS = [
    {},
    {"product": "full", "node": "gate"},
    {"product": "so2", "node": "gaunt"},
    {"product": "vector_signal"},
    {"product": "gaunt+curl", "node": "gate"},
    {"product": "matrix", "node": "gaunt", "zbl": True},
]
EXACT = tolerance(torch.float64, 100)
FREE = {"rtol": 1e-12, "atol": 1e-12}  # sums of the merged weights are those of the trained ones


def each_model(test):
    names = ["-".join(map(str, changes.values())) or "default" for changes in MODELS]
    return pytest.mark.parametrize("changes", MODELS, ids=names)(test)


@each_model
def test_new_elements_change_neither_rows_nor_energies_of_known_ones(changes):
    model, batch = potential(**changes), batch_of(MOLECULE, CRYSTAL)
    torch.manual_seed(3)
    wide = with_species(model, (7, 3, 8, 16))
    assert wide.config.species == (1, 3, 6, 7, 8, 16)
    torch.manual_seed(3)
    fresh = MessagePassingPotential(wide.config).double()
    known, new = [0, 2, 4], [1, 3, 5]

    def rows(of, name):
        value = of.state_dict()[name]
        if ".skip." in name:  # blocks by irrep and element
            value = value.view(-1, len(of.config.species), of.config.channels**2).transpose(0, 1)
        return value

    for name, value in model.state_dict().items():
        if name in species_tables(model):
            assert torch.equal(rows(wide, name)[known], rows(model, name)), name
            if name not in ("e0", "scale"):
                assert torch.equal(rows(wide, name)[new], rows(fresh, name)[new]), name
        elif not name.endswith("output_mask"):
            assert torch.equal(wide.state_dict()[name], value), name
    torch.testing.assert_close(wide(batch).energies, model(batch).energies, **EXACT)
    torch.testing.assert_close(wide(batch).forces, model(batch).forces, **EXACT)
    assert wide.e0[new].tolist() == [0.0] * 3
    assert wide.scale[new].tolist() == pytest.approx([float(model.scale.mean())] * 3)


def test_known_elements_alone_return_the_potential_itself():
    model = potential()
    assert with_species(model, SPECIES[::-1]) is model
    assert with_species(model, ()) is model


def test_new_charges_change_nothing_before_they_are_trained():
    model = potential(charges=(-1, 0))
    wide = with_species(model, (), {"charge": (1, -1), "spin": (3,)})
    assert (wide.config.charges, wide.config.spins) == ((-1, 0, 1), (1, 3))
    for charge in (-1, 0):
        batch = batch_of(MOLECULE, CRYSTAL, charge=[charge, 0])
        torch.testing.assert_close(wide(batch).energies, model(batch).energies, **EXACT)
    here, there = (wide(batch_of(MOLECULE, charge=[q], spin=[s])) for q, s in ((0, 1), (1, 3)))
    torch.testing.assert_close(here.energies, there.energies, **EXACT)
    assert with_species(wide, SPECIES, {"charge": (0, 1)}) is wide


def test_parts_are_frozen_by_name_and_others_are_one_error():
    def frozen(*parts):
        model = potential(layers=3)
        freeze(model, parts)
        return {name for name, x in model.named_parameters() if not x.requires_grad}

    every = {name for name, _ in potential(layers=3).named_parameters()}
    readouts = {name for name in every if ".readout." in name}
    assert frozen() == set()
    assert frozen("body") == every - readouts
    assert frozen("embedding") == {"embedding.weight"}
    assert frozen("layers.1") == {n for n in every - readouts if n.startswith("layers.1.")}
    radial = frozen("radial")
    assert {name.split(".")[2] for name in radial} == {"messages"}
    assert "layers.2.messages.conv.radial" in radial
    assert frozen("embedding", "layers.0", "layers.1", "layers.2") == every - readouts
    with pytest.raises(
        ValueError, match=r"among body, embedding, radial, .*layers.2, got layers.3"
    ):
        freeze(potential(layers=3), ["radial", "layers.3"])


@each_model
def test_merged_updates_of_low_rank_are_plain_weights(changes):
    model, batch, rank = potential(**changes), batch_of(MOLECULE, CRYSTAL), 2
    before = model(batch)
    plain = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    add_low_rank(model, rank)
    assert torch.equal(model(batch).energies, before.energies)  # the updates are zero
    learned = {name: x for name, x in model.named_parameters() if x.requires_grad}
    assert all(".parametrizations." in name for name in learned)
    with torch.no_grad():
        for value in learned.values():
            value.add_(0.1 * torch.randn_like(value))
    found = model(batch)
    assert (found.energies - before.energies).abs().max() > 1e-3
    state = plain_state(model)
    assert sorted(state) == sorted(plain)
    again = MessagePassingPotential(model.config).double().eval()
    again.load_state_dict(state)
    torch.testing.assert_close(again(batch).energies, found.energies, **FREE)
    torch.testing.assert_close(again(batch).forces, found.forces, **FREE)
    changed = {name for name in plain if not torch.equal(state[name], plain[name])}
    assert changed == {n for n, _ in again.named_parameters()} - {"embedding.weight"}
    for k in range(model.config.layers):  # every block has the rank
        name = f"layers.{k}.mix_received.weight"
        update = (state[name] - plain[name]).view(-1, *[model.config.channels] * 2)
        ranks = torch.linalg.matrix_rank(update, rtol=1e-9)  # others are rounding, near 1e-16
        assert ranks.unique().tolist() == [rank]
    assert is_parametrized(model.layers[0].mix_in)


def test_frozen_weights_have_no_update_of_low_rank():
    model = potential()
    freeze(model, ["radial"])
    add_low_rank(model, 2)
    assert not is_parametrized(model.layers[0].messages.radial.layer0)
    learned = {name for name, x in model.named_parameters() if x.requires_grad}
    assert learned
    assert not any(".original" in name or ".radial" in name for name in learned)


def test_heads_share_all_but_the_last_read_out_and_references():
    model, batch = potential(), batch_of(MOLECULE, CRYSTAL)
    own = model(batch).energy
    heads = Heads(model, ("a", "b"))
    assert heads["a"] is model
    other = heads["b"]
    named = dict(model.named_parameters())
    separate = {n for n, x in other.named_parameters() if x is not named[n]}
    assert separate == {n for n in named if n.startswith("layers.1.readout.")}
    assert torch.equal(other(batch).energy, own)
    other.set_references([1.0, 2.0, 3.0])
    with torch.no_grad():
        other.layers[1].readout.layer1.weight.mul_(2)
        assert torch.equal(model(batch).energy, own)
        model.embedding.weight.mul_(2)
    assert torch.equal(other.embedding.weight, model.embedding.weight)
    state, again = heads.state_dict(), Heads(potential(seed=1), ("a", "b"))
    again.load_state_dict(state)
    for name in heads.names:
        assert torch.equal(again[name](batch).energy, heads[name](batch).energy)
    assert heads["b"](batch).energy[0] != heads["a"](batch).energy[0]
    fresh = Heads(with_species(potential(seed=2), [7]), ("c", "b"))
    fresh.take("b", other)
    assert fresh["b"].e0.tolist() == [1.0, 2.0, 0.0, 3.0]
    assert torch.equal(fresh["b"].layers[1].readout.layer1.weight,
                       other.layers[1].readout.layer1.weight)  # fmt: skip
    with pytest.raises(KeyError, match="head must be one of a, b, got 'c'"):
        heads["c"]
