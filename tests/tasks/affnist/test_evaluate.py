from __future__ import annotations

import json

import pytest
import torch

from equigeo.datasets import AffNIST, centred, load_digits
from equigeo.tasks.affnist import (
    evaluate_image_classifier,
)


@pytest.mark.parametrize("test", ["affnist", "homnist", "centred"])
def test_numbers_agree_with_a_recomputation(trained, folder, test):
    from equigeo.datasets import HomNIST

    result = evaluate_image_classifier(trained, test, 10)
    images, labels = load_digits(folder, "test")
    kind = HomNIST if test == "homnist" else AffNIST
    chosen = torch.tensor([0, 1, 2, 3, 4, 6, 7, 8, 9, 10])  # spread over twelve
    drawn = kind(images, labels, "test").render(chosen, torch.zeros(10, dtype=torch.long))
    seen = centred(images[chosen]) if test == "centred" else drawn
    predicted = trained.logits(seen).argmax(dim=1)
    assert result.accuracy == (predicted == labels[chosen]).double().mean().item()
    pairs = list(zip(labels[chosen].tolist(), predicted.tolist(), strict=True))
    assert result.confusion == [[pairs.count((a, b)) for b in range(10)] for a in range(10)]
    assert (result.images, result.test, result.split) == (10, test, "test")
    assert json.loads(json.dumps(result.to_dict()))["classes"] == list("0123456789")


def test_every_image_is_taken_where_there_are_few(trained):
    assert evaluate_image_classifier(trained).images == 12 * 32
    assert evaluate_image_classifier(trained, "centred").images == 12


def test_unknown_tests_and_too_many_images_are_refused(trained):
    with pytest.raises(ValueError, match="test must be one of affnist, homnist, centred"):
        evaluate_image_classifier(trained, "rotated")
    with pytest.raises(ValueError, match="number must be 1 to 12, got 13"):
        evaluate_image_classifier(trained, "centred", 13)
