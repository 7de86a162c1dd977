"""What the packages of training and data say of their objects fits on a few lines."""

import importlib
import pkgutil
from dataclasses import fields, is_dataclass
from inspect import isabstract
from typing import Any

import numpy as np
import pytest
import torch

from equigeo._core.config import Config
from equigeo.cli.completion import _Place, _Value
from equigeo.datasets import AffNIST, PointClouds, TSPInstance
from equigeo.tasks.common.arguments import Argument, class_table, copies_table
from equigeo.tasks.common.copies import CopyResult
from equigeo.tasks.pointcloud.run import PointPreset, UprightCrossEntropy
from equigeo.tasks.potential import EnergyForcesStress
from equigeo.tasks.potential.data import PotentialPreset
from equigeo.tasks.potential.objective import CompiledObjective
from equigeo.tasks.tsp.run import RandomInstances
from equigeo.tasks.tsp.task import TourCopyResult, TourEvaluation, tour_tables
from equigeo.training.run_folder import RunFolder
from tests.tasks.tiny_data import tiny_dataset

PACKAGES = ("training", "tasks", "report", "cli")
LINES, LONGEST = 10, 2000


def modules():
    for package in PACKAGES:
        prefix = f"equigeo.{package}."
        path = importlib.import_module(f"equigeo.{package}").__path__
        for found in pkgutil.walk_packages(path, prefix):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def dataclasses():
    found = {
        value
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, type) and is_dataclass(value)
        if value.__module__.startswith(tuple(f"equigeo.{name}" for name in PACKAGES))
        and not issubclass(value, Config)  # whose numbers and lists have ranges
    }
    return sorted(found, key=lambda cls: f"{cls.__module__}.{cls.__name__}")


# A few numbers, names or other objects of this list each.
SMALL = {
    CompiledObjective,
    EnergyForcesStress,
    PotentialPreset,
    Argument,
    PointPreset,
    RandomInstances,
    RunFolder,
    TourCopyResult,
    UprightCrossEntropy,
    _Place,
    _Value,
}
CLASSES = [cls for cls in dataclasses() if cls not in SMALL and not isabstract(cls)]
LONG: tuple[Any, ...] = (
    ["name " * 20] * 1000,
    {f"key {n}": [0.5] * 1000 for n in range(1000)},
    "text\n" * 10_000,
    torch.zeros(100, 100, 100),
    torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(100))),
    tuple(torch.zeros(3) for _ in range(1000)),
)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_whatever_an_object_holds_its_repr_is_short(cls):
    for value in LONG:
        instance = cls.__new__(cls)
        for field in fields(cls):
            object.__setattr__(instance, field.name, value)
        assert len(repr(instance)) <= LONGEST
        assert len(repr(instance).splitlines()) <= LINES


def test_data_sets_say_how_much_they_hold():
    names = {cls.__name__ for cls in CLASSES}
    assert {"MeshEvaluation", "TrainedMeshClassifier", "Checkpoint", "FitPlan"} <= names
    digits = torch.ones(10, 28, 28, dtype=torch.uint8)
    clouds = PointClouds(torch.zeros(6, 50, 3), torch.arange(6) % 2, ("a", "b"))
    said = {
        repr(tiny_dataset()): "MeshDataset(18 meshes of 3 classes, 12 to train)",
        repr(clouds): "PointClouds(6 of 50 points, 2 classes)",
        repr(TSPInstance("a" * 1000, "EUC_2D", np.zeros((500, 2)))): "500 cities, best None)",
        repr(AffNIST(digits, torch.arange(10), "test")): "AffNIST(10 test digits, 32 variants of",
    }
    for text, part in said.items():
        assert part in text
        assert len(text) < 200


TABLES = {
    class_table(["cat", "dog"], [[3, 1], [0, 6]], "images"): (
        "class  correct  images  accuracy",
        "cat          3       4     75.0%",
        "dog          6       6    100.0%",
        "all          9      10    90.00%",
    ),
    copies_table([CopyResult("rotated", 0.5, ["a"], 0.01)]): (
        "copies          accuracy  changed  largest change of a probability",
        "rotated           50.00%        1  1.0e-02",
    ),
    tour_tables(TourEvaluation(20, 1000, 3.84, {"greedy": 3.92}, 0, [], [])): (
        "1000 instances of 20 cities, mean length of the shortest tours 3.8400",
        "tours                      length      gap",
        "greedy                     3.9200    2.08%",
    ),
}


def test_tables_have_aligned_columns():
    for text, lines in TABLES.items():
        assert text.splitlines() == [*lines]
