"""Configuration, data, fit, evaluation and command-line task of point clouds."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields, shown
from equigeo._core.config import within
from equigeo.affine import AffinePointNet
from equigeo.datasets import PointClouds, load_modelnet_points, read_cloud
from equigeo.datasets.clouds import (
    CLOUD_SUFFIXES,
    MOST_POINTS,
    load_cloud_parts,
    normalized_cloud,
)
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
from equigeo.mesh.geometry.orient import random_stretches
from equigeo.tasks.common.arguments import Argument, class_table, copies_table, natural, positive
from equigeo.tasks.common.measures import (
    CLOUD_COPIES,
    CopyResult,
    accuracy,
    classify,
    cloud_copies,
    confusion_matrix,
    ranking,
    relative_change,
)
from equigeo.tasks.common.mesh_data import (
    EVALUATED_SPLIT,
    HOLDOUT,
    SPLIT,
    VALIDATED,
    SplitRunConfig,
    evaluated_config,
    has_validation,
    hold_out,
)
from equigeo.tasks.pointcloud.resample import resample
from equigeo.tasks.task import (
    ALLOW_TRAINED,
    Evaluation,
    EvaluationOutput,
    FilePrediction,
    Task,
    describe_trained_on,
)
from equigeo.training.config import Recipe
from equigeo.training.data import LabelledBatch, LabelledSource, digest
from equigeo.training.objective import CrossEntropy, FitPlan, Objective
from equigeo.training.process import derived_generator
from equigeo.training.trained_model import TrainedModel


@dataclass(frozen=True)
class PointPreset:
    """Recipe and number of points per cloud of a preset."""

    recipe: Recipe
    points: int = 1024


_RECIPE: Final = Recipe(
    epochs=30, batch_size=32, learning_rate=2e-3, optimizer="adamw", schedule="one_cycle",
    weight_decay=0.01, label_smoothing=0.1, jitter=0.01,
)  # fmt: skip
_AFFINE: Final = PointPreset(_RECIPE)
# half-way between classes that count by their share and classes that count alike
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


@dataclass(frozen=True)
class PointConfig(SplitRunConfig):
    """Configuration of a run on point clouds, saved as ``config.json``.

    Training clouds stand upright, as published, and are not rotated.

    Parameters
    ----------
    data : str
        Folder; see ``datasets.load_modelnet_points`` and ``datasets.load_cloud_folder``.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    split : str
        "folder", or the fractions of ``equigeo.datasets.load_cloud_folder``, separated by commas.
    preset : str
        For ``affine``, the group: ``default``, ``SO`` or ``GLPlus``. For the others, the network:
        ``default``, ``pointnet``, ``pointnet++``, ``dgcnn`` or ``transformer``.
    model : {"affine", "mds", "plain"}
        Family of the model; ``plain`` is the network of ``mds`` without the embedding.
    points : int
        Points per cloud, at most those of the data; training draws a new subset for each batch.
    holdout : int
        If positive, evaluate on this number of training clouds per class instead of test clouds.

    Examples
    --------
    >>> config = PointConfig("modelnet10_points", model="mds", points=256)
    >>> PointConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = POINT_PRESETS["affine"]["default"].recipe
    preset: Literal["default", "SO", "GLPlus", "pointnet", "pointnet++", "dgcnn", "transformer"] = (
        "default"
    )
    model: Literal["affine", "mds", "plain"] = "affine"
    points: int = within(1, 2**20, default=1024)
    holdout: int = within(0, 10**6, default=0)
    split: str = "folder"

    recipes: ClassVar[Mapping[str, Recipe]] = {
        name: preset.recipe
        for presets in POINT_PRESETS.values()
        for name, preset in presets.items()
    }
    preset_choices: ClassVar[frozenset[str]] = frozenset({"data", "preset", "model"})
    samples: ClassVar[str] = "point clouds"
    unused: ClassVar[tuple[str, ...]] = ("resolutions", "damaged")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preset not in POINT_PRESETS[self.model]:
            raise ValueError(
                f"preset must be one of {', '.join(POINT_PRESETS[self.model])} for the model "
                f"{self.model!r}, got {self.preset!r}"
            )

    @classmethod
    def of_preset(cls, data: str, preset: Any = "default", model: Any = "affine") -> PointConfig:
        found = POINT_PRESETS.get(model, {}).get(preset, _AFFINE)  # unknown names raise below
        return cls(data, found.recipe, preset, model=model, points=found.points)

    @classmethod
    def presets(cls, data: str = "data") -> list[PointConfig]:
        return [
            cls.of_preset(data, preset, model)
            for model, presets in POINT_PRESETS.items()
            for preset in presets
        ]

    @property
    def preset_name(self) -> str:
        return self.model if self.preset == "default" else self.preset


@dataclass(frozen=True, eq=False)
class LabelledClouds(LabelledSource):
    """Source of labeled point clouds."""

    points: Tensor  # (clouds, points, 3), on the CPU
    labels: Tensor  # (clouds,)
    num_points: int  # points drawn per cloud for every training batch
    jitter: float = 0.0  # see `Recipe`, as the following
    stretch: float = 0.0
    resample: float = 0.0

    __repr__ = brief_fields

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        points = self.points[chosen]
        if generator is None:
            return fewer_points(points, self.num_points, chosen.tolist())
        if self.num_points < points.shape[1]:
            # the largest of independent keys: a uniform draw without replacement
            keys = torch.rand(points.shape[:2], generator=generator)
            points = _take(points, keys.topk(self.num_points, dim=1).indices)
        if self.resample > 0:
            points = resample(points, self.resample, generator)
        if self.stretch > 0:
            points = points @ random_stretches(len(points), self.stretch, generator, points)
        if self.jitter > 0:
            noise = torch.randn(points.shape, generator=generator, dtype=points.dtype)
            points = points + self.jitter * noise
        return points

    def digests(self) -> Tensor:
        return torch.stack([cloud_digests(self.points), self.labels], dim=1)


def cloud_digests(
    points: Tensor,  # (clouds, points, 3)
) -> Tensor:
    """Return a digest of every cloud, (clouds,)."""
    return torch.tensor([digest(cloud) for cloud in points], dtype=torch.long)


class CloudParts(NamedTuple):
    """Training clouds, and those that a run is evaluated on."""

    train: PointClouds
    evaluated: PointClouds
    measure: str = "test_accuracy"  # name of the accuracy on the evaluated clouds


def load_clouds(config: PointConfig, *, validate: bool = False) -> CloudParts:
    """Load training clouds with all points, and evaluation clouds with a fixed draw of points."""
    parts = whole_clouds(config, validate=validate)
    points = fewer_points(parts.evaluated.points, config.points)
    return parts._replace(evaluated=replace(parts.evaluated, points=points))


def whole_clouds(config: PointConfig, *, validate: bool = False) -> CloudParts:
    """Load training and evaluation clouds with all points; ``validate`` prefers a part ``val``."""
    parts = _parts(config)
    train = parts["train"]
    if config.points > train.points.shape[1]:
        raise ValueError(
            f"{config.data}: clouds have {train.points.shape[1]} points, not {config.points}; "
            "choose fewer with --points"
        )
    has_val = has_validation(parts.get("val"), config.holdout)
    if config.holdout:
        return CloudParts(*_hold_out(train, config.holdout))
    chosen, word, measure = "test", "test", "test_accuracy"
    if validate and has_val:
        chosen, word, measure = "val", "validation", VALIDATED
    evaluated = parts[chosen]
    if evaluated.classes != train.classes:
        raise ValueError(f"{config.data}: training and {word} clouds have different classes")
    for part, clouds in (("training", train), (word, evaluated)):
        present = set(clouds.labels.tolist())
        for label, name in enumerate(clouds.classes):
            if label not in present:  # its accuracy would be undefined
                raise ValueError(f"{config.data}: has no {part} cloud of the class {shown(name)}")
    return CloudParts(train, evaluated, measure)


def _parts(config: PointConfig) -> dict[str, PointClouds]:
    """Read class folders or ModelNet10; its test file is not opened for held-out evaluation."""
    folder = Path(config.data)
    if not any(folder.glob("modelnet10_*.npz")):
        return load_cloud_parts(folder, config.points, config.fractions)
    if config.fractions:
        raise ValueError(f"{folder} has parts of its own, got split {config.split!r}")
    parts = {"train": load_modelnet_points(folder, "train")}
    return parts if config.holdout else parts | {"test": load_modelnet_points(folder, "test")}


def _hold_out(clouds: PointClouds, number: int) -> tuple[PointClouds, PointClouds]:
    counts = clouds.labels.bincount(minlength=clouds.num_classes)
    for name, count in zip(clouds.classes, counts.tolist(), strict=True):
        if count <= number:
            raise ValueError(
                f"class {shown(name)} has {count} training clouds, "
                f"too few to hold out {number} of them; choose fewer with --holdout"
            )
    parts = hold_out(clouds.labels, torch.arange(len(clouds)), number)
    rest, held = (
        replace(clouds, points=clouds.points[part], labels=clouds.labels[part]) for part in parts
    )
    return rest, held


def fewer_points(
    points: Tensor,  # (clouds, points, 3)
    number: int,
    indices: Sequence[int] | None = None,  # of the clouds; by default their positions
) -> Tensor:
    """Draw a random subset of each cloud's points, fixed by its index, (clouds, number, 3)."""
    total = points.shape[1]
    if number == total:
        return points
    # a stream for each cloud, independent of the seed of the run: runs are comparable
    kept = [
        torch.randperm(total, generator=derived_generator(0, "points", i))[:number]
        for i in (range(len(points)) if indices is None else indices)
    ]
    return _take(points, torch.stack(kept))


def _take(points: Tensor, kept: Tensor) -> Tensor:
    """Return the points of every cloud at positions (clouds, kept)."""
    return points.gather(1, kept[:, :, None].expand(-1, -1, 3))


class PlainPointNet(InvariantPointNet):
    """Network of an ``InvariantPointNet`` without the embedding, the only difference."""

    def __init__(self, config: InvariantPointNetConfig) -> None:
        if config.group is not None:
            raise ValueError(f"group must be None for a plain network, got {config.group!r}")
        super().__init__(config)

    @classmethod
    def preset(cls, name: str, num_classes: int, **changes: Any) -> PlainPointNet:
        config = InvariantPointNet.preset(name, num_classes, **changes).config
        return cls(InvariantPointNetConfig(num_classes, config.network, config.settings, None))


# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
# with ``num_classes``, and takes (clouds, points, 3). One with an embedding also has
# ``flagged``.
POINT_MODELS: Final[dict[str, Any]] = {
    "affine": AffinePointNet,
    "mds": InvariantPointNet,
    "plain": PlainPointNet,
}


@dataclass(frozen=True)
class UprightCrossEntropy(Objective):
    """Cross-entropy over pairs of class and up direction, for models with ``pairs``."""

    pairs: CrossEntropy = field(default_factory=CrossEntropy)  # adjustment is per class

    def sums(self, model: Any, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        logits, up = model.pairs(batch.inputs)
        # the probability of a class is the sum over directions
        right = logits.detach().logsumexp(-1).argmax(dim=1) == batch.labels
        return self.pairs.loss(logits, batch.labels * logits.shape[-1] + up), right.sum()


BATCH_SIZE: Final = 32  # clouds that are classified at once


class TrainedPointClassifier(TrainedModel[PointConfig]):
    """Trained point cloud classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "pointcloud", "classifier of point clouds", PointConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return POINT_MODELS[config.model].from_config(model)

    def logits(self, points: Tensor) -> Tensor:
        """Return logits (clouds, classes) of coordinates (clouds, points, 3)."""
        if len(points) == 0:
            return torch.zeros(0, len(self.classes))
        return classify(self.model, points.split(BATCH_SIZE))

    def flagged(self, points: Tensor) -> Tensor | None:
        """Return which clouds have an embedding that is not invariant up to rounding, (clouds,).

        None if the model has no embedding.
        """
        found = getattr(self.model, "flagged", None)
        return None if found is None else found(points)


def _evaluate(test: PointClouds, measure: str, model: nn.Module) -> dict[str, float]:
    upright = classify(model, test.points.split(BATCH_SIZE))
    rotated = classify(model, cloud_copies(test.points, "rotated").split(BATCH_SIZE))
    return {
        measure: accuracy(upright, test.labels),
        "rotated_accuracy": accuracy(rotated, test.labels),
        "logit_change": relative_change(upright, rotated),
    }


@dataclass(frozen=True, repr=False)
class PointEvaluation(Evaluation):
    """Predictions on upright clouds and on transformed copies."""

    classes: list[str]
    labels: list[int]
    predictions: list[int]
    confusion: list[list[int]]  # clouds by true class (row) and predicted class (column)
    accuracy: float  # on upright clouds
    copies: list[CopyResult]  # clouds are named by position
    logit_changes: dict[str, float]  # RMS over the standard deviation across upright clouds
    # clouds with an embedding that is not invariant up to rounding; None without an embedding
    flagged: list[int] | None = None
    unflagged_accuracy: dict[str, float] = field(default_factory=dict)  # upright, by kind of copy
    trained_on: int | None = None  # number of training clouds; None if not recorded


def evaluate_point_classifier(
    classifier: TrainedPointClassifier,
    *,
    data: str | None = None,
    seed: int = 0,
    split: str | None = None,
) -> PointEvaluation:
    """Classify the evaluation clouds of the training, or other test clouds, and copies.

    ``data`` and ``split``, as in ``PointConfig``, select other clouds; without ``split``, the
    folder of other data has its own parts. ``seed`` determines the copies. The classes of the data
    must be those of the classifier.

    Examples
    --------
    >>> model = InvariantPointNet.preset("pointnet", 2).eval()  # not trained
    >>> config = PointConfig("modelnet10_points", preset="pointnet", model="mds", points=32)
    >>> trained = TrainedPointClassifier(model, ("bed", "chair"), config, "0.2.0")
    >>> evaluate_point_classifier(trained, data="nowhere")
    Traceback (most recent call last):
        ...
    ValueError: nowhere: no such file or folder
    """
    config = evaluated_config(classifier.config, data, split)
    whole = whole_clouds(config).evaluated
    test = replace(whole, points=fewer_points(whole.points, config.points))
    if test.classes != classifier.classes:
        raise ValueError(
            f"the data have the classes {', '.join(test.classes)}, "
            f"the checkpoint {', '.join(classifier.classes)}"
        )
    logits = {"upright": classifier.logits(test.points)}
    logits |= {
        kind: classifier.logits(cloud_copies(test.points, kind, seed)) for kind in CLOUD_COPIES
    }
    probabilities = {kind: seen.double().softmax(dim=1) for kind, seen in logits.items()}
    original = probabilities["upright"]
    predictions = original.argmax(dim=1)
    names = [str(i) for i in range(len(test))]
    flagged = classifier.flagged(test.points)
    unflagged = {}
    if flagged is not None and not bool(flagged.all()):
        unflagged = {
            kind: accuracy(seen[~flagged], test.labels[~flagged])
            for kind, seen in probabilities.items()
        }
    return PointEvaluation(
        classes=list(classifier.classes),
        labels=test.labels.tolist(),
        predictions=predictions.tolist(),
        confusion=confusion_matrix(test.labels, predictions, test.num_classes).tolist(),
        accuracy=accuracy(original, test.labels),
        copies=[
            CopyResult.compare(
                kind, probabilities[kind][:, None], original[:, None], test.labels[:, None], names
            )
            for kind in CLOUD_COPIES
        ],
        logit_changes={
            kind: relative_change(logits["upright"], logits[kind]) for kind in CLOUD_COPIES
        },
        flagged=None if flagged is None else flagged.nonzero().flatten().tolist(),
        unflagged_accuracy=unflagged,
        trained_on=classifier.trained_on(cloud_digests(whole.points)),
    )


class PointCloudClassification(Task[PointConfig, CloudParts, TrainedPointClassifier]):
    """Classify point clouds after training on upright ones.

    Examples
    --------
    >>> PointCloudClassification().name
    'pointcloud'
    """

    help = "classify point clouds after training on upright ones"
    example_data = "my_scans"
    data_remedy = "a folder or an archive"
    train_arguments = (
        Argument(
            "--data", "folder with modelnet10_train.npz, or folder or archive"
            " <class>/{train,val,test}/<cloud or mesh>", metavar="DIR|ARCHIVE",
        ),
        Argument(
            "--model", "family of the model (default: affine); plain is mds without the embedding",
            choices=tuple(POINT_MODELS),
        ),
        Argument("--no-embedding", "--model plain", constant="plain", dest="model"),
        Argument(
            "--points", "points of every cloud", positive, metavar="N", unit="points"
        ),
        HOLDOUT,
        SPLIT,
    )  # fmt: skip
    evaluate_arguments = (
        Argument("--data", "default: the training data of the model", metavar="DIR|ARCHIVE"),
        EVALUATED_SPLIT,
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )
    measures = {  # noqa: RUF012
        "test_accuracy": "{part} accuracy {value:.2%}",
        VALIDATED: "{part} accuracy {value:.2%}",
        "rotated_accuracy": "rotated accuracy {value:.2%}",
        "logit_change": "equivariance error {value:.3f}: change of the logits / deviation",
    }
    files = "NPY, NPZ, XYZ, OBJ, OFF, PLY, STL, VTP, GLB, glTF or 3MF"
    suffixes = CLOUD_SUFFIXES
    trained_type = TrainedPointClassifier

    def load(self, config: PointConfig) -> CloudParts:
        return load_clouds(config, validate=True)

    def describe(self, config: PointConfig, data: CloudParts) -> str:
        drawn = f", split {config.split}" if config.fractions else ""
        return (
            f"clouds of {config.data}{drawn}, {config.points} points each, {config.model} model, "
            f"{config.preset} preset"
        )

    def plan(
        self, config: PointConfig, data: CloudParts, model: nn.Module | None = None
    ) -> FitPlan:
        train, test, measure = CloudParts(*data)
        if model is None:
            model = self._initial_model(config, train.num_classes)
        noise = {name: getattr(config.recipe, name) for name in ("jitter", "stretch", "resample")}
        source = LabelledClouds(train.points, train.labels, config.points, **noise)
        paired = isinstance(model, InvariantPointNet) and model.config.upright
        classes = CrossEntropy.of(config.recipe, train.labels, train.num_classes)
        objective = UprightCrossEntropy(classes) if paired else classes
        return FitPlan(
            config, model, train.classes, source, objective, partial(_evaluate, test, measure)
        )

    def preset_model(self, config: PointConfig, num_classes: int = 2) -> Any:
        return POINT_MODELS[config.model].preset(config.preset, num_classes=num_classes)

    def evaluate(
        self, trained: TrainedPointClassifier, options: argparse.Namespace
    ) -> EvaluationOutput:
        evaluation = evaluate_point_classifier(
            trained, data=options.data, seed=options.seed or 0, split=options.split
        )
        seen = describe_trained_on(
            evaluation.trained_on, len(evaluation.labels), "clouds", allowed=options.allow_trained
        )
        text = (
            f"{class_table(evaluation.classes, evaluation.confusion, 'clouds')}\n\n"
            f"{copies_table(evaluation.copies, evaluation.logit_changes)}\n\n"
            "equivariance error: change of the logits / their deviation across upright clouds\n\n"
            f"{_summary(evaluation)}\n{seen}"
        )
        return EvaluationOutput(text, evaluation.to_dict())

    def predict(
        self, trained: TrainedPointClassifier, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        if view:
            raise ValueError("--view shows meshes; a point cloud has no faces")
        if top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        number = trained.config.points
        try:
            wanted = max(number, MOST_POINTS)  # and a part of these, as of the clouds of a folder
            points = read_cloud(path, wanted)
            if len(points) < number:
                raise ValueError(f"has {len(points)} points, the model takes {number}")
            cloud = fewer_points(normalized_cloud(points, wanted)[None], number)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        ranked = ranking(trained.classes, trained.logits(cloud)[0], top)
        flagged = trained.flagged(cloud)
        remark = ""
        if flagged is not None and bool(flagged[0]):
            remark = "its embedding is not invariant up to rounding"
        return FilePrediction(path, ranked, "", remark=remark)


def _summary(evaluation: PointEvaluation) -> str:
    """Summarize the main results in a few lines."""
    (rotated,) = (copy for copy in evaluation.copies if copy.kind == "rotated")
    number = len(evaluation.labels)
    lines = [
        f"accuracy upright {evaluation.accuracy:.2%}, rotated {rotated.accuracy:.2%}",
        f"equal predictions upright and rotated: {1 - len(rotated.changed) / number:.2%}",
    ]
    if evaluation.flagged is not None:
        share = len(evaluation.flagged) / number
        lines.append(f"flagged by the embedding at default thresholds: {share:.2%}")
    if evaluation.unflagged_accuracy:
        upright, turned = (evaluation.unflagged_accuracy[k] for k in ("upright", "rotated"))
        lines.append(f"without flagged clouds: upright {upright:.2%}, rotated {turned:.2%}")
    return "\n".join(lines)
