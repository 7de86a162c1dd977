from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equigeo.datasets import centred, load_digits
from equigeo.tasks.affnist import (
    AffNISTClassification,
    evaluate_image_classifier,
)
from equigeo.tasks.affnist.data import LabelledImages


def test_training_digits_are_centred_and_unchanged(folder):
    images, labels = load_digits(folder, "train")
    source = LabelledImages(centred(images), labels)
    batch = source.batch([3, 1], generator=torch.Generator())
    assert torch.equal(batch.labels, labels[[3, 1]])
    assert batch.inputs.shape == (2, 1, 40, 40)
    assert torch.equal((batch.inputs[:, 0] * 255).round().byte(), centred(images[[3, 1]]))
    assert source.batch([0]).inputs.amin() == 0  # the background


def test_holding_out_leaves_the_test_digits_unseen(config, folder, tmp_path):
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    for file in folder.glob("train-*"):
        (lonely / file.name).write_bytes(file.read_bytes())
    held = replace(config, data=str(lonely), holdout=True)
    trained = AffNISTClassification().train(held, tmp_path / "run")
    evaluation = evaluate_image_classifier(trained, number=30)
    assert evaluation.split == "validation"
    assert evaluation.accuracy == trained.history[-1]["test_accuracy"]
    with pytest.raises(ValueError, match="has no t10k-images"):
        evaluate_image_classifier(trained, split="test")
    with pytest.raises(ValueError, match="has no t10k-images"):
        AffNISTClassification().train(replace(config, data=str(lonely)), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_first_digits_alone_may_be_trained_on(config, tmp_path):
    few = replace(config, digits=8, recipe=replace(config.recipe, epochs=1))
    assert (
        AffNISTClassification().train(few, tmp_path / "few").history[0]["train_accuracy"] * 8 % 1
        == 0
    )
    with pytest.raises(ValueError, match="has 40 training digits, not 41"):
        AffNISTClassification().train(replace(config, digits=41), tmp_path / "many")
    with pytest.raises(ValueError, match="number must be 1 to 384, got 385"):
        AffNISTClassification().train(replace(config, test_images=385), tmp_path / "many")
    assert not (tmp_path / "many").exists()
