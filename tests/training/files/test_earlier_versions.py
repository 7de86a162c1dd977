"""Checkpoints that version 0.1.0 wrote are loaded, used and evaluated."""

import json

import pytest
import torch

from equigeo.cli import main
from equigeo.mesh import load_mesh
from equigeo.tasks.mesh_classification import TrainedMeshClassifier
from tests.make_data import DATA

FILE = DATA / "checkpoints" / "mesh_classification_0.1.0.ckpt"


@pytest.fixture(scope="module")
def expected():
    return json.loads(FILE.with_suffix(".json").read_text())


def test_a_model_of_0_1_0_gives_the_logits_that_it_gave_there(expected):
    trained = TrainedMeshClassifier.load(FILE)
    assert trained.version == "0.1.0"
    assert list(trained.classes) == expected["classes"]
    assert trained.is_finished
    mesh, _ = load_mesh(DATA / "meshes" / "ant.obj")
    want = torch.tensor(expected["logits"])
    # features of order 1 in float32, summed in another order; logits differ a hundred times more
    torch.testing.assert_close(trained.logits([mesh])[0], want, rtol=0, atol=1e-5)
    assert float((want - want.mean()).abs().min()) > 1e-3


def test_its_configuration_says_what_that_version_did():
    recipe = TrainedMeshClassifier.load(FILE).config.recipe
    # none of these had a name then
    assert (recipe.update_bn, recipe.minutes, recipe.warmup, recipe.clip_norm) == (False, 0, 0, 0)


def test_the_command_predicts_with_it(capsys, expected):
    assert main(["predict", str(FILE), str(DATA / "meshes" / "ant.obj"), "--json"]) == 0
    ((best, _),) = json.loads(capsys.readouterr().out)["ranking"]
    assert best == expected["classes"][max(range(3), key=expected["logits"].__getitem__)]
