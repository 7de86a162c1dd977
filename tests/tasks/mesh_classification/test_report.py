from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from equigeo.report import render_report
from equigeo.tasks.mesh_classification import evaluate_mesh_classifier, summarize_run
from tests.tasks.mesh_run import train_meshes


@pytest.fixture(scope="module")
def trained(tmp_path_factory, config, dataset):
    from equigeo.mesh import ClassifierConfig, PrimalDualClassifier

    model = PrimalDualClassifier(ClassifierConfig(3, channels=(8, 8), keep=(0.7, None)))
    return train_meshes(config, dataset, tmp_path_factory.mktemp("run"), model=model)


TEST = torch.tensor([4, 5, 10, 11, 16, 17])


def test_a_report_is_made_of_plain_results(trained, dataset):
    evaluation = evaluate_mesh_classifier(trained, dataset, TEST)
    results = summarize_run(trained, evaluation, dataset, "equigeo evaluate x")
    assert json.loads(json.dumps(results)) == json.loads(json.dumps(results, allow_nan=False))
    shapes = results["shapes"]
    assert 3 <= len(shapes) <= 6
    wrong = [shape["label"] != shape["prediction"] for shape in shapes]
    assert wrong == sorted(wrong, reverse=True)  # mistakes come first
    assert all(len(s["levels"]) == 1 and len(s["levels"][0]) == len(s["faces"]) for s in shapes)
    assert shapes[0]["name"] in render_report(results)


def test_a_report_counts_what_resembles_nothing(trained, dataset):
    evaluation = evaluate_mesh_classifier(trained, dataset, TEST)
    assert len(evaluation.novelties) == len(TEST)
    strange = replace(evaluation, novelties=[2.0, *[0.5] * (len(TEST) - 1)])
    assert strange.unfamiliar == [evaluation.names[0]]
    results = summarize_run(trained, strange, dataset, "equigeo evaluate x")
    assert ("resemble nothing it was trained on", "1 of 6 meshes") in results["facts"]
    # a checkpoint of an earlier version says nothing, and nothing is said of it
    silent = summarize_run(trained, replace(evaluation, novelties=None), dataset, "x")
    assert not any("resemble" in name for name, _ in silent["facts"])
    assert not any(shape["unfamiliar"] for shape in silent["shapes"])
