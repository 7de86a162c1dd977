"""Variants of the ModelNet10 benchmark are what their names say, for every network alike."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from bench.modelnet10 import VARIANTS, other_network, run_config
from bench.recorder import plain


def arguments(network, variant, epochs=None):
    return argparse.Namespace(
        network=network, variant=variant, epochs=epochs, points=None, seed=0, holdout=50,
        evaluate_every=0, data=Path("clouds"),
    )  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_changes_recipe_or_network_of_both_networks_alike(variant):
    for network in ("mds", "plain"):
        given = arguments(network, variant, epochs=3)
        preset, changed = run_config(arguments(network, "as preset")), run_config(given)
        recipe = VARIANTS[variant].get("recipe", {}) | {"epochs": 3}
        assert changed == replace(preset, recipe=replace(preset.recipe, **recipe))
        model = other_network(given, changed)
        assert (model is None) == ("network" not in VARIANTS[variant])
        if model is not None:
            settings = model.config.to_dict()["settings"]
            assert plain(settings) == plain(VARIANTS[variant]["network"])
            assert (model.config.group is None) == (network == "plain")
