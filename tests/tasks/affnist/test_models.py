from __future__ import annotations

import pytest
import torch

from equigeo.tasks.affnist import (
    IMAGE_MODELS,
    IMAGE_RECIPES,
)
from equigeo.tasks.affnist.models import PlainCNN, PlainCNNConfig
from equigeo.testing import tolerance


def test_the_plain_network_sees_translations_alone():
    torch.manual_seed(0)
    model = PlainCNN.preset("cnn").eval()
    images = torch.zeros(1, 1, 40, 40)
    images[..., 14:24, 16:22] = torch.rand(10, 6)
    with torch.no_grad():
        still, moved, turned = model(
            torch.cat([images, images.roll((4, -8), (2, 3)), images.rot90(1, (2, 3))])
        )
    torch.testing.assert_close(still, moved, **tolerance(torch.float32, 1152, 10))
    assert (still - turned).abs().max() > 1e-3


@pytest.mark.parametrize("widths", [(), (0,)])
def test_a_plain_network_of_nothing_is_refused(widths):
    with pytest.raises(ValueError, match="must be positive"):
        PlainCNN(PlainCNNConfig(10, widths))
    with pytest.raises(ValueError, match="preset must be 'cnn'"):
        PlainCNN.preset("default")


@pytest.mark.parametrize("preset", IMAGE_MODELS)
def test_every_preset_has_a_recipe_and_a_model(preset):
    assert preset in IMAGE_RECIPES
    assert IMAGE_MODELS[preset].preset(preset, num_classes=10).config.num_classes == 10
