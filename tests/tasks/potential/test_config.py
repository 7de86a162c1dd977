from __future__ import annotations

import json
from dataclasses import replace

import pytest

from equigeo.potentials import MessagePassingPotential
from equigeo.tasks.potential import POTENTIAL_PRESETS, InteratomicPotential, PotentialRunConfig


@pytest.mark.parametrize("preset", POTENTIAL_PRESETS)
def test_presets_give_recipe_and_settings_and_survive_json(preset, tmp_path):
    options = {"data": "x", "preset": preset, "seed": 3, "product": "gaunt", "channels": 8}
    config = InteratomicPotential().configure(tmp_path / "run", options)
    said = POTENTIAL_PRESETS[preset]
    assert config.recipe == said.recipe
    base = PotentialRunConfig.of_preset(config.data, preset)
    assert config == replace(base, seed=3, product="gaunt", channels=8)
    kept = said.settings.items() - options.items()
    assert all(getattr(config, name) == value for name, value in kept if name != "channels")
    assert PotentialRunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_minutes_and_epochs_exclude_each_other_unless_both_are_given(tmp_path):
    def recipe(**options):
        task = InteratomicPotential()
        return task.configure(tmp_path / "run", {"data": "x", **options}).recipe

    assert (recipe().minutes, recipe().epochs) == (15.0, 100_000)
    assert (recipe(minutes=2.0).minutes, recipe(minutes=2.0).epochs) == (2.0, 100_000)
    assert (recipe(epochs=3).minutes, recipe(epochs=3).epochs) == (0.0, 3)
    both = recipe(epochs=3, minutes=2.0)
    assert (both.minutes, both.epochs) == (2.0, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cutoff": 0.0}, "cutoff must be"),
        ({"validation": 0}, "validation must be at least 1"),
        ({"forces_weight": -1.0}, "forces_weight must be"),
        ({"product": "best"}, "product must be one of channelwise"),
        ({"energy_weight": 0.0, "forces_weight": 0.0}, "one of the weights"),
    ],
)
def test_a_configuration_out_of_range_names_its_field(changes, message):
    with pytest.raises(ValueError, match=message):
        PotentialRunConfig("x", **changes)


def test_parts_of_a_recipe_that_mean_nothing_are_refused():
    recipe = replace(POTENTIAL_PRESETS["default"].recipe, jitter=0.1)
    with pytest.raises(ValueError, match="jitter must be 0 for frames of atoms"):
        PotentialRunConfig("x", recipe)


def test_the_default_model_has_the_specified_number_of_parameters():
    # specification potentials.md, section 3.2
    for preset, species, number in (
        ("default", (1, 6, 8), 69_200), ("small", (1, 6, 8), 26_672), ("crystal", (42,), 30_160),
    ):  # fmt: skip
        config = PotentialRunConfig.of_preset("x", preset).model(species)
        model = MessagePassingPotential(config)
        assert sum(p.numel() for p in model.parameters()) == number
