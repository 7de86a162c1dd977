"""The configuration of the network for clouds."""

from __future__ import annotations

import pytest

from equigeo.affine import AffinePointNetConfig

# As checkpoints hold it.
SAVED: dict[str, object] = {
    "num_classes": 4, "group": "GLPlus", "rotations": "octahedral", "centers": [24, 8],
    "neighbors": [6, 5], "radii": [0.8, 1.5], "channels": [8, 10, 12], "rank": 3, "gaussians": 4,
    "dropout": 0.1,
}  # fmt: skip


def test_checkpoints_are_read() -> None:
    config = AffinePointNetConfig.from_dict(SAVED)
    assert config == AffinePointNetConfig(
        4, "GLPlus", "octahedral", (24, 8), (6, 5), (0.8, 1.5), (8, 10, 12), 3, 4, 0.1
    )
    assert config.to_dict() == SAVED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "SL"}, "group must be one of"),
        ({"rotations": "cyclic"}, "rotations must be"),
        ({"centers": (8, 16)}, "must not become more"),
        ({"radii": (1.0,)}, "radii must be 2 positive"),
        ({"channels": (1, 0, 2)}, "channels must be 3 positive"),
        ({"rank": 0}, "rank must be positive"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AffinePointNetConfig(5, **settings)
    with pytest.raises(ValueError, match="unknown"):
        AffinePointNetConfig.from_dict({"num_classes": 5, "colour": 1})
