"""The presets of every family of point-cloud classifiers, in one table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from equigeo.training.points.point_preset import PointPreset
from equigeo.training.recipe import Recipe

_RECIPE: Final = Recipe(
    epochs=30,
    batch_size=32,
    learning_rate=2e-3,
    optimizer="adamw",
    schedule="one_cycle",
    weight_decay=0.01,
    label_smoothing=0.1,
    jitter=0.01,
)
_AFFINE: Final = PointPreset(_RECIPE)
_BALANCED: Final = replace(_RECIPE, logit_adjustment=0.5)
_NETWORKS: Final = {  # half an hour on two cores at most
    "default": PointPreset(replace(_BALANCED, epochs=80)),
    "pointnet": PointPreset(replace(_BALANCED, epochs=90), points=256),
    "pointnet++": PointPreset(replace(_BALANCED, epochs=80)),
    "dgcnn": PointPreset(replace(_BALANCED, epochs=20), points=256),
    "transformer": PointPreset(replace(_BALANCED, epochs=25), points=256),
}

# The network is the same with and without an embedding, and so is how it is trained.
POINT_PRESETS: Final[dict[str, dict[str, PointPreset]]] = {
    "affine": {"default": _AFFINE, "SO": _AFFINE, "GLPlus": _AFFINE},
    "mds": _NETWORKS,
    "plain": _NETWORKS,
}
