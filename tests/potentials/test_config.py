import json

import pytest

from equigeo.potentials import PotentialConfig


def test_configurations_survive_json():
    config = PotentialConfig((1, 8), product="so2", node="gate", radial_hidden=(32,))
    assert PotentialConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"species": ()}, "species must be ascending"),
        ({"species": (8, 8)}, "species must be ascending"),
        ({"species": (0, 8)}, "species must be at least 1"),
        ({"cutoff": 0.0}, "cutoff must be positive"),
        ({"product": "dot"}, "product must be one of channelwise"),
        ({"node": "mean"}, "node must be one of contraction"),
        ({"product": "curl", "node": "gate"}, 'take "gaunt\\+curl"'),
        ({"radial_hidden": ()}, "at least one width"),
        ({"lmax_edge": 1, "lmax_hidden": 2}, "lmax_hidden must be at most lmax_edge, 1, got 2"),
        ({"channels": 10**9}, "channels must be at most 4096"),
    ],
)
def test_what_makes_no_potential_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        PotentialConfig(**{"species": (1,)} | changes)
