import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from inspect import isabstract
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch

from equigeo._core.config import Config, Range, ranges_of
from equigeo.cli import main
from equigeo.datasets import AffNIST, PointClouds, SegmentedMeshDataset, TSPInstance
from equigeo.potentials import MessagePassingPotential
from equigeo.tasks import TASKS, InteratomicPotential
from equigeo.tasks.affnist import IMAGE_RECIPES, ImageConfig
from equigeo.tasks.common.arguments import Argument, class_table, copies_table
from equigeo.tasks.common.measures import CopyResult
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig
from equigeo.tasks.mesh_dynamics import DynamicsConfig
from equigeo.tasks.mesh_dynamics.task import DynamicsResult, NextState
from equigeo.tasks.mesh_regression import MeshRegressionConfig
from equigeo.tasks.mesh_segmentation import SegmentationConfig
from equigeo.tasks.pointcloud import POINT_PRESETS, PointConfig
from equigeo.tasks.pointcloud.task import PointPreset, UprightCrossEntropy
from equigeo.tasks.potential import EnergyForcesStress, PotentialRunConfig
from equigeo.tasks.potential.data import POTENTIAL_PRESETS, PotentialPreset
from equigeo.tasks.potential.objective import CompiledObjective
from equigeo.tasks.tsp import TourConfig
from equigeo.tasks.tsp.task import RandomInstances, TourCopyResult, TourEvaluation, tour_tables
from equigeo.training import Recipe
from equigeo.training.run_folder import RunFolder
from tests.tasks.tiny_data import tiny_dataset

EVERY_TASK = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
OWN_OPTIONS = {
    "mesh-classification": {"data": "x", "split": "16", "split_index": 2, "holdout": 4},
    "mesh-segmentation": {"data": "x", "holdout": 2, "sizes": ("area",)},
    "mesh-regression": {"data": "x", "targets": ("mass",), "at": "faces", "loss": "mae"},
    "mesh-dynamics": {"equation": "wave", "trajectories": 3, "faces": 128},
    "affnist": {"data": "x", "holdout": True, "digits": 500, "test_images": 20},
    "pointcloud": {"data": "x", "points": 7, "split": "0.5,0.5"},
    "tsp": {"cities": 50, "instances": 9},
    "potential": {"data": "x", "product": "gaunt", "channels": 8, "validation": 3},
}
RECIPE = {"epochs": 1, "batch_size": 2, "learning_rate": 1e-3}


def subclasses(cls: type[Config]) -> Iterator[type[Config]]:
    for sub in cls.__subclasses__():
        if sub.__module__.startswith("equigeo."):
            yield sub
        yield from subclasses(sub)


def holds_numbers(hint: Any) -> bool:
    return hint in (int, float, Any) or any(map(holds_numbers, get_args(hint)))


def test_every_number_of_every_configuration_has_a_range():
    configs = set(subclasses(Config))
    assert {task.config_type for task in TASKS} <= configs
    assert len(configs) > 12
    for cls in configs:
        hints = get_type_hints(cls)
        numbers = {field.name for field in fields(cls) if holds_numbers(hints[field.name])}
        assert numbers == set(ranges_of(cls)), cls
        assert all(isinstance(allowed, Range) for allowed in ranges_of(cls).values()), cls


@EVERY_TASK
def test_preset_with_options_survives_json(task, tmp_path):
    changes = OWN_OPTIONS[task.name] | {"seed": 3, "devices": 1, "evaluate_every": 1}
    for preset in task.config_type.presets():
        choices = {name: getattr(preset, name) for name in preset.preset_choices - {"data"}}
        config = task.configure(tmp_path / "run", changes | choices)
        assert config == replace(preset, **changes | {"data": config.data})
        assert type(config).from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_of_presets_are_those_of_their_tables():
    for preset, said in POTENTIAL_PRESETS.items():
        config = PotentialRunConfig.of_preset("x", preset)
        assert all(getattr(config, name) == value for name, value in said.settings.items())
    for model, presets in POINT_PRESETS.items():
        for preset, said in presets.items():
            config = PointConfig.of_preset("x", preset, model)
            assert (config.recipe, config.points) == (said.recipe, said.points)


@EVERY_TASK
def test_model_of_preset_is_rebuilt_from_json(task):
    for preset in task.config_type.presets():
        if (model := task.preset_model(preset)) is None:
            assert task.name == "potential"  # whose frames decide the elements
            continue
        assert getattr(model.config, "num_classes", 2) == 2
        again = task.trained_type.build(json.loads(json.dumps(model.config.to_dict())), preset)
        again.load_state_dict(model.state_dict())
        assert json.dumps(again.config.to_dict()) == json.dumps(model.config.to_dict())
        if task.name == "pointcloud":
            clouds = torch.rand(2, 40, 3, generator=torch.Generator().manual_seed(0))
            with torch.no_grad():
                assert torch.equal(again.eval()(clouds), model.eval()(clouds))


def test_paper_recipes_are_the_released_ones():
    paper = MESH_RECIPES["paper"]
    assert (paper.optimizer, paper.learning_rate, paper.weight_decay) == ("adam", 2e-4, 0)
    assert (paper.epochs, paper.batch_size, paper.schedule) == (200, 16, "constant")
    assert (paper.jitter, paper.label_smoothing) == (0, 0)
    paper = IMAGE_RECIPES["paper"]
    assert (paper.optimizer, paper.learning_rate, paper.weight_decay) == ("adam", 2e-4, 5e-3)
    assert (paper.epochs, paper.batch_size, paper.schedule) == (50, 128, "cosine")


AUGMENTATIONS = ("jitter", "stretch", "resample", "resolutions", "damaged")


def received(plan: Any) -> list[torch.Tensor]:
    """Return what the network gets of two samples, four times, in training and in evaluation."""
    batches = [
        plan.train.batch([0, 1] * 4, generator=noise).inputs
        for noise in (torch.Generator().manual_seed(3), None)
    ]
    names = ("x_primal", "state")
    found = [[getattr(x, name) for name in names if hasattr(x, name)] or [x] for x in batches]
    return [x for (x,) in found]


@EVERY_TASK
def test_every_augmentation_of_every_preset_reaches_the_network(task):
    meshes = tiny_dataset()
    labels = tuple(torch.zeros(len(mesh.faces), dtype=torch.long) for mesh in meshes.meshes)
    parts = SegmentedMeshDataset(meshes.meshes, labels, ("a",), meshes.names, meshes.in_train)
    clouds = PointClouds(torch.randn(4, 16, 3), torch.tensor([0, 0, 1, 1]), ("a", "b"))
    for config in task.config_type.presets():
        used = [name for name in AUGMENTATIONS if getattr(config.recipe, name)]
        for name in used:
            plain = {other: type(getattr(config.recipe, other))() for other in AUGMENTATIONS}
            recipe = replace(config.recipe, **plain | {name: getattr(config.recipe, name)})
            changed = replace(config, recipe=recipe)
            if task.name == "pointcloud":
                plan = task.plan(replace(changed, points=16), (clouds, clouds))
            elif task.name == "mesh-dynamics":
                changed = replace(changed, trajectories=2, steps=1, faces=32)
                plan = task.plan(changed, task.load(changed))
            else:
                assert task.name in ("mesh-classification", "mesh-segmentation")
                plan = task.plan(changed, meshes if task.name == "mesh-classification" else parts)
            noisy, still = received(plan)
            assert noisy.shape != still.shape or not torch.equal(noisy, still), (config, name)


def test_default_potentials_have_the_specified_numbers_of_parameters():
    # specification potentials.md, section 3.2
    numbers = {
        "default": ((1, 6, 8), 69_200),
        "small": ((1, 6, 8), 26_672),
        "crystal": ((42,), 30_160),
    }
    for preset, (species, number) in numbers.items():
        config = PotentialRunConfig.of_preset("x", preset).model(species)
        assert sum(p.numel() for p in MessagePassingPotential(config).parameters()) == number


OUT_OF_RANGE = [
    (MeshConfig, {"split": "17"}, "split must .*17"),
    *((MeshConfig, {"split": x}, "split must be a string, got") for x in (16, None, (0.5, 0.5))),
    (MeshConfig, {"data": 5}, "data must be a string, got 5"),
    (MeshConfig, {"preset": []}, "preset must be one of .*, got"),
    (MeshConfig, {"preset": "best"}, "preset must .*best"),
    (MeshConfig, {"seed": -1}, "seed must .*-1"),
    (MeshConfig, {"devices": 0}, "devices must .*0"),
    (MeshConfig, {"holdout": -2}, "holdout must .*-2"),
    (ImageConfig, {"test_images": 0}, "test_images must be at least 1"),
    (ImageConfig, {"digits": -1}, "digits must not be negative"),
    (ImageConfig, {"preset": "best"}, "preset must be one of default, cnn, paper"),
    (ImageConfig, {"recipe": Recipe(**RECIPE, jitter=0.1)}, "jitter must be 0 for images"),
    (PointConfig, {"points": 0}, "points must be at least 1"),
    (PointConfig, {"holdout": -1}, "holdout must not be negative"),
    (PointConfig, {"model": "best"}, "model must be one of affine, mds, plain"),
    (TourConfig, {"data": "clusters"}, "data must be uniform"),
    (TourConfig, {"model": "best"}, "model must be mds or plain"),
    (TourConfig, {"cities": 2}, "cities must be at least 3"),
    (TourConfig, {"instances": 0}, "instances must be at least 1"),
    (TourConfig, {"seed": -1}, "seed must not be negative"),
    (TourConfig, {"preset": "large"}, "preset must be one of default, paper"),
    (TourConfig, {"recipe": Recipe(**RECIPE, jitter=0.1)}, "jitter must be 0 for tours"),
    (TourConfig, {"recipe": Recipe(**RECIPE, label_smoothing=0.1)}, "label_smoothing must be 0"),
    (TourConfig, {"recipe": Recipe(**RECIPE, logit_adjustment=1)}, "logit_adjustment must be 0"),
    (DynamicsConfig, {"data": "x"}, "data must be simulated"),
    (DynamicsConfig, {"faces": 64}, "faces must be 32, 128, 512 or 2048"),
    (DynamicsConfig, {"equation": "fire"}, "equation must be one of heat, wave, sheet"),
    (DynamicsConfig, {"steps": 0}, "steps must be at least 1"),
    (PotentialRunConfig, {"cutoff": 0.0}, "cutoff must be"),
    (PotentialRunConfig, {"validation": 0}, "validation must be at least 1"),
    (PotentialRunConfig, {"forces_weight": -1.0}, "forces_weight must be"),
    (PotentialRunConfig, {"product": "best"}, "product must be one of channelwise"),
    (PotentialRunConfig, {"energy_weight": 0.0, "forces_weight": 0.0}, "one of the weights"),
    (
        PotentialRunConfig,
        {"recipe": replace(POTENTIAL_PRESETS["default"].recipe, jitter=0.1)},
        "jitter must be 0 for frames of atoms",
    ),
    (Recipe, {"epochs": 0}, "epochs must be"),
    (Recipe, {"batch_size": 0}, "batch_size must be"),
    (Recipe, {"learning_rate": float("nan")}, "learning_rate must be"),
    (Recipe, {"learning_rate": 0.0}, "learning_rate must be"),
    (Recipe, {"weight_decay": -1.0}, "weight_decay must be"),
    (Recipe, {"jitter": float("inf")}, "jitter must be"),
    (Recipe, {"logit_adjustment": -0.5}, "logit_adjustment must be"),
    (Recipe, {"label_smoothing": 1.0}, "label_smoothing must be"),
    (Recipe, {"ema_decay": 1.0}, "ema_decay must be"),
    (Recipe, {"optimizer": "sgd"}, "optimizer must be"),
    (Recipe, {"schedule": "linear"}, "schedule must be"),
    (Recipe, {"warmup": 5}, "5 steps of warm-up must have the schedule warm_cosine, got one_cycle"),
    (Recipe, {"warmup": 5, "schedule": "constant"}, "warm-up must have the schedule warm_cosine"),
    (Recipe, {"minutes": 1.0}, "a run of 1 minutes must have the schedule warm_cosine or constant"),
    (Recipe, {"stretch": -0.1}, "stretch must be"),
    (Recipe, {"stretch": float("nan")}, "stretch must be"),
    (Recipe, {"resample": -0.1}, "resample must be"),
    (Recipe, {"resample": 1.1}, "resample must be"),
    (Recipe, {"resolutions": (0.0,)}, "resolutions must be"),
    (Recipe, {"resolutions": (5,)}, "resolutions must be"),
]  # fmt: skip


def refusal(make, *arguments, **fields):
    """Return the message of a ValueError, or what was made without one."""
    try:
        made = make(*arguments, **fields)
    except ValueError as error:
        return str(error)
    return f"accepted: {made}"


def test_value_out_of_range_names_its_field():
    for cls, changes, message in OUT_OF_RANGE:
        generated = cls in (TourConfig, DynamicsConfig)
        sound = RECIPE if cls is Recipe else {} if generated else {"data": "x"}
        assert re.search(message, refusal(cls, **sound | changes))


@EVERY_TASK
@pytest.mark.parametrize("name", ["minutes", "warmup"])
def test_options_are_offered_where_a_schedule_knows_them(task, name, capsys):
    value, given = {"minutes": (0.5, "0.5"), "warmup": (3, "3")}[name]
    known = [config.recipe.knows(name) for config in task.config_type.presets()]
    assert main(["train", task.name, "--help"]) == 0
    assert (f"--{name} " in capsys.readouterr().out) == any(known)
    for config, knows in zip(task.config_type.presets(), known, strict=True):
        if knows:
            assert getattr(replace(config.recipe, **{name: value}), name) == value
    if not any(known):
        assert main(["train", task.name, f"--{name}", given]) == 2
        assert f"--{name}" in capsys.readouterr().err


def test_damaged_configuration_is_refused():
    damages = {
        MeshConfig: [{"seed": "0"}, {"seed": True}, {"data": 3}, {"recipe": 3}, {"recipe": {}},
                     {"split": "17"}, {"surplus": 1}],
        ImageConfig: [{"holdout": 1}, {"digits": True}, {"split": "folder"}],
        SegmentationConfig: [{"holdout": True}],
    }  # fmt: skip
    for cls, changes in damages.items():
        for change in changes:
            found = refusal(cls.from_dict, cls("builtin").to_dict() | change)
            assert re.search("the configuration|recipe|split must", found)
    for values in (None, [], 3, {}):
        assert refusal(MeshConfig.from_dict, values).startswith("the configuration")


@pytest.mark.parametrize("kind", [MeshConfig, SegmentationConfig, MeshRegressionConfig])
def test_configurations_without_options_of_loading_are_those_of_earlier_versions(kind):
    values = kind("data", merge=1e-3, min_component=0.1).to_dict()
    loading = {"merge": 1e-3, "min_component": 0.1, "inputs": ()}
    assert kind.from_dict(values).loading == loading
    del values["merge"], values["min_component"], values["sizes"], values["inputs"]
    assert kind.from_dict(values) == kind("data")
    with pytest.raises(ValueError, match="must be a JSON object"):
        kind.from_dict([])
    clouds = PointConfig("data").to_dict()
    assert clouds.pop("split") == "folder"
    assert PointConfig.from_dict(clouds) == PointConfig("data")


def test_minutes_and_epochs_exclude_each_other_unless_both_are_given(tmp_path):
    def recipe(**options):
        task = InteratomicPotential()
        return task.configure(tmp_path / "run", {"data": "x", **options}).recipe

    assert (recipe().minutes, recipe().epochs) == (15.0, 100_000)
    assert (recipe(minutes=2.0).minutes, recipe(minutes=2.0).epochs) == (2.0, 100_000)
    assert (recipe(epochs=3).minutes, recipe(epochs=3).epochs) == (0.0, 3)
    both = recipe(epochs=3, minutes=2.0)
    assert (both.minutes, both.epochs) == (2.0, 3)


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
    CompiledObjective, DynamicsResult, EnergyForcesStress, NextState, PotentialPreset, Argument,
    PointPreset, RandomInstances, RunFolder, TourCopyResult, UprightCrossEntropy,
}  # fmt: skip
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
