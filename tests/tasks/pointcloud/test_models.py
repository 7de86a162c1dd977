from __future__ import annotations

import json

import pytest
import torch

from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    POINT_PRESETS,
)

MODELS = dict(POINT_MODELS)


PRESETS = [(model, preset) for model, presets in POINT_PRESETS.items() for preset in presets]


@pytest.mark.parametrize(("model", "preset"), PRESETS)
def test_models_of_presets_are_rebuilt_from_json(model, preset):
    built = MODELS[model].preset(preset, num_classes=3).eval()
    again = MODELS[model].from_config(json.loads(json.dumps(built.config.to_dict()))).eval()
    again.load_state_dict(built.state_dict())
    clouds = torch.rand(2, 40, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(again(clouds), built(clouds))
