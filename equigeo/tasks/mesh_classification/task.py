"""Evaluation and command-line task of mesh classification."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from equigeo._core.text import printable
from equigeo.datasets import MeshDataset
from equigeo.datasets.class_folders import FRACTIONS
from equigeo.mesh import (
    LoadReport,
    PrimalDualClassifier,
    PrimalDualGraph,
    TriangleMesh,
    load_mesh,
)
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES
from equigeo.tasks.common.arguments import Argument, class_table, copies_table, natural
from equigeo.tasks.common.measures import (
    CopyResult,
    accuracy,
    classify,
    confusion_matrix,
    random_orthogonal,
    ranking,
)
from equigeo.tasks.common.mesh_data import (
    EVALUATED_SPLIT,
    HOLDOUT,
    INPUTS,
    LARGEST_SHOWN,
    LOADING,
    RELOADING,
    SPLIT,
    VALIDATED,
    MeshRunConfig,
    evaluated_config,
    evaluated_part,
    repair_summary,
    report_facts,
    shape_geometry,
    split_summary,
)
from equigeo.tasks.mesh_classification.run import (
    BATCH_SIZE,
    LabelledMeshes,
    MeshConfig,
    TrainedMeshClassifier,
    TrainedMeshModel,
    load_meshes,
    mesh_digests,
    mesh_novelty,
    mesh_sources,
    split_meshes,
)
from equigeo.tasks.task import (
    ALLOW_TRAINED,
    Evaluation,
    EvaluationOutput,
    FilePrediction,
    Task,
    describe_trained_on,
    number_trained_on,
    run_facts,
)
from equigeo.training.objective import CrossEntropy, FitPlan, Objective
from equigeo.training.process import derived_generator

MESH_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "re-indexed", "all of these")


def random_copy(mesh: TriangleMesh, kind: str, generator: torch.Generator) -> TriangleMesh:
    """Draw a transformed copy of a mesh; ``kind`` is one of ``MESH_COPIES``.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> moved = random_copy(mesh, "rotated", torch.Generator().manual_seed(0)).vertices
    >>> torch.allclose(torch.pdist(moved), torch.pdist(mesh.vertices))
    True
    """
    if kind not in MESH_COPIES:
        raise ValueError(f"kind must be one of {', '.join(MESH_COPIES)}, got {kind!r}")
    # rotated: Haar measure of SO(3). reflected: rotated and mirrored, faces keep their winding as
    # in a mirrored file. translated: ten bounding-box diagonals per axis. re-indexed: vertices and
    # faces permuted, corners of each face rotated.
    everything = kind == MESH_COPIES[-1]
    g = torch.eye(4, dtype=torch.float64)  # homogeneous
    if everything or kind in ("rotated", "reflected"):
        mirrored = kind == "reflected" or (everything and _uniform(generator) < 0.5)
        g[:3, :3] = random_orthogonal(generator, -1.0 if mirrored else 1.0)
    if everything or kind == "scaled":
        # log-uniform from 1/100 to 100
        g[:3, :3] *= 100.0 ** (2 * _uniform(generator) - 1)
    moved = mesh.act(g)
    if everything or kind == "translated":
        moved = moved.act(_translation(moved, generator))
    return _reindexed(moved, generator) if everything or kind == "re-indexed" else moved


def random_copies(
    meshes: Sequence[TriangleMesh],
    kind: str,
    seed: int,
    positions: Sequence[int],  # of the meshes in their data set
) -> list[TriangleMesh]:
    """Draw a transformed copy of every mesh, independent of which others are evaluated."""
    return [
        random_copy(mesh, kind, derived_generator(seed, kind, i))
        for i, mesh in zip(positions, meshes, strict=True)
    ]


def _uniform(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def _translation(mesh: TriangleMesh, generator: torch.Generator) -> torch.Tensor:
    # vertices of no face could lie anywhere
    used = mesh.vertices[mesh.faces.unique()]
    diagonal = (used.amax(dim=0) - used.amin(dim=0)).norm()
    g = torch.eye(4, dtype=torch.float64)
    # at ten diagonals coordinates have about one decimal digit less than at the origin
    g[:3, 3] = 10 * diagonal * torch.randn(3, generator=generator, dtype=torch.float64)
    return g


def _reindexed(mesh: TriangleMesh, generator: torch.Generator) -> TriangleMesh:
    new = torch.randperm(mesh.num_vertices, generator=generator)  # position of every vertex
    vertices = torch.empty_like(mesh.vertices)
    vertices[new] = mesh.vertices
    order = torch.randperm(mesh.num_faces, generator=generator)
    # a rotation of the corners keeps the winding, unlike an exchange
    shift = torch.randint(3, (mesh.num_faces, 1), generator=generator)
    faces = new[mesh.faces][order].gather(1, (torch.arange(3) + shift) % 3)
    pairs = mesh.pairs
    if pairs is not None:
        face, place = order.argsort()[pairs // 3], pairs % 3
        pairs = 3 * face + (place - shift[face, 0]) % 3
    inputs = {name: x[order] for name, x in mesh.inputs.items()}
    return TriangleMesh(vertices, faces, pairs, inputs)


@dataclass(frozen=True, repr=False)
class MeshEvaluation(Evaluation):
    """Predictions on labeled meshes and on transformed copies."""

    classes: list[str]
    names: list[str]
    labels: list[int]
    predictions: list[int]
    confidences: list[float]  # probability of the predicted class
    confusion: list[list[int]]  # meshes by true class (row) and predicted class (column)
    accuracy: float
    copies: list[CopyResult]  # one per kind of copy
    novelties: list[float] | None = None  # see `TrainedMeshModel.novelties`
    trained_on: int | None = None  # number of training meshes; None if not recorded

    @property
    def unfamiliar(self) -> list[str] | None:
        """Names of the meshes that are novel to the classifier."""
        if self.novelties is None:
            return None
        pairs = zip(self.names, self.novelties, strict=True)
        return [name for name, novelty in pairs if novelty > 1]


def evaluate_mesh_classifier(
    classifier: TrainedMeshClassifier, dataset: MeshDataset, indices: Tensor, seed: int = 0
) -> MeshEvaluation:
    """Classify meshes of a data set, and copies of each that are determined by ``seed``.

    Classes of the data must be known to the classifier, in any order.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier, TriangleMesh
    >>> from equigeo.tasks.mesh_classification import MeshConfig
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> meshes = tuple(TriangleMesh(torch.eye(4, 3) * size, faces) for size in (1, 2))
    >>> data = MeshDataset(
    ...     meshes, torch.tensor([0, 1]), ("low", "high"), ("a", "b"), torch.tensor([True, False])
    ... )
    >>> model = PrimalDualClassifier.preset("default", num_classes=2).eval()  # not trained
    >>> trained = TrainedMeshClassifier(model, data.classes, MeshConfig("memory"), "0.2.0")
    >>> evaluation = evaluate_mesh_classifier(trained, data, torch.tensor([1]))
    >>> evaluation.names, evaluation.copies[0].kind, evaluation.copies[0].changed  # it is invariant
    (['b'], 'rotated', [])
    """
    if len(indices) == 0:
        raise ValueError("the evaluated part of the data has no meshes; choose another split")
    labels = class_positions(classifier, dataset, "classes")[dataset.labels][indices]
    chosen = indices.tolist()
    meshes, names = [dataset.meshes[i] for i in chosen], [dataset.names[i] for i in chosen]
    # in double precision, so that differences between copies are those of the model
    probabilities = classifier.logits(meshes).double().softmax(dim=1)
    predictions = probabilities.argmax(dim=1)
    confusion = confusion_matrix(labels, predictions, len(classifier.classes))
    copies = []
    for kind in MESH_COPIES:
        moved = random_copies(meshes, kind, seed, chosen)
        seen = classifier.logits(moved).double().softmax(dim=1)
        rows = seen[:, None], probabilities[:, None], labels[:, None]  # of one part each
        copies.append(CopyResult.compare(kind, *rows, names))
    return MeshEvaluation(
        classes=list(classifier.classes),
        names=names,
        labels=labels.tolist(),
        predictions=predictions.tolist(),
        confidences=probabilities.amax(dim=1).tolist(),
        confusion=confusion.tolist(),
        accuracy=accuracy(probabilities, labels),
        copies=copies,
        novelties=classifier.novelties(meshes),
        trained_on=classifier.trained_on(mesh_digests(meshes)),
    )


def class_positions(
    trained: TrainedMeshModel[Any],
    dataset: Any,  # with `classes`
    noun: str,  # what the classes are called in messages
) -> Tensor:
    """Return the position of each class of a data set among those of a model, (classes,)."""
    unknown = [name for name in dataset.classes if name not in trained.classes]
    if unknown:
        raise ValueError(
            f"the data have {noun} that the checkpoint does not know: {', '.join(unknown)}; "
            f"evaluate on data with the {noun} of the training"
        )
    return torch.tensor([trained.classes.index(name) for name in dataset.classes])


_SHOWN = 6  # shapes, which fill two rows of a wide window


def summarize_run(
    classifier: TrainedMeshClassifier,
    evaluation: MeshEvaluation,
    dataset: MeshDataset,
    command: str,
    config: MeshConfig | None = None,
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_report``, as JSON types."""
    config = config or classifier.config
    number = len(evaluation.labels)
    correct = sum(evaluation.confusion[i][i] for i in range(len(evaluation.classes)))
    facts = [("accuracy", f"{evaluation.accuracy:.2%} ({correct} of {number} meshes)")]
    if evaluation.unfamiliar is not None:
        count = f"{len(evaluation.unfamiliar)} of {number} meshes"
        facts.append(("resemble nothing it was trained on", count))
    facts.append(("data", f"{config.data}, split {config.split}, draw {config.split_index}"))
    if config.holdout:
        unit = "meshes" if dataset.groups is None else "groups of meshes"
        facts.append(("held out for validation", f"{config.holdout} {unit} per class"))
    return {
        "title": "Mesh classification",
        "lead": "A primal-dual mesh network, its training and its evaluation.",
        "command": command,
        **mesh_run_summary(classifier, config, facts, evaluation),
        **evaluation.to_dict(),
        "shapes": _shapes(classifier, evaluation, dataset),
    }


def mesh_run_summary(
    trained: TrainedMeshModel[Any],
    config: Any,  # of the evaluated data, with a preset
    facts: list[tuple[str, str]],  # on results and data
    evaluation: Any,  # with `names` and `trained_on`
) -> dict[str, Any]:
    """Return the facts on a run of a mesh network and its history."""
    seen = number_trained_on(evaluation.trained_on, len(evaluation.names), "meshes")
    of_run = run_facts(trained, config, f"{config.preset} preset")
    return {
        "facts": [*facts, ("trained on", seen), *of_run],
        "history": trained.history,
        "evaluated_part": evaluated_part(trained),
    }


def _shapes(
    classifier: TrainedMeshClassifier, evaluation: MeshEvaluation, dataset: MeshDataset
) -> list[dict[str, Any]]:
    """Return geometry and clusters of a few shapes, misclassified ones first."""
    position = {name: i for i, name in enumerate(dataset.names)}
    shapes = []
    for i in _choose(evaluation):
        mesh = dataset.meshes[position[evaluation.names[i]]]
        if mesh.num_faces > LARGEST_SHOWN:
            continue
        seen = {
            "label": evaluation.classes[evaluation.labels[i]],
            "prediction": evaluation.classes[evaluation.predictions[i]],
            "probability": evaluation.confidences[i],
            "unfamiliar": evaluation.novelties is not None and evaluation.novelties[i] > 1,
        }
        shapes.append(shape_geometry(classifier.model, evaluation.names[i], mesh) | seen)
    return shapes


def _choose(evaluation: MeshEvaluation) -> list[int]:
    """Choose misclassified meshes, most confident first, then one of each class, evenly spread."""
    wrong: list[int] = []
    right: dict[int, int] = {}
    for i, (label, seen) in enumerate(zip(evaluation.labels, evaluation.predictions, strict=True)):
        if label != seen:
            wrong.append(i)
        else:
            right.setdefault(label, i)
    chosen = sorted(wrong, key=lambda i: -evaluation.confidences[i])[:_SHOWN]
    free = _SHOWN - len(chosen)
    candidates = list(right.values())
    # classes at even distances, not the first ones of the alphabet
    stride = max(1, len(candidates) // free) if free else 1
    return chosen + candidates[::stride][:free]


_RANKED = 5  # classes that a page shows
_SPLITS = "|".join([*MeshConfig.splits, "FRACTIONS"])
_SPLIT_INDEX = Argument(
    "--split-index",
    "number of the draw (default: that of the run, or 0 of another split)",
    natural,
    metavar="I",
)


_Config = TypeVar("_Config", bound=MeshRunConfig)
_Data = TypeVar("_Data")
_Trained = TypeVar("_Trained", bound=TrainedMeshModel[Any])


class Predicted(NamedTuple):
    """Prediction of one mesh, with entries of its shape and of its page."""

    ranking: list[tuple[str, float]]
    files: dict[str, bytes]
    shape: dict[str, Any]
    page: dict[str, Any]
    values: Mapping[str, float] = MappingProxyType({})
    summary: str = ""


# Entries of the history that a task measures, objective, and function (test, name, model) of these.
Fit: TypeAlias = tuple[Objective, Callable[[LabelledMeshes, str, nn.Module], dict[str, float]]]


class MeshTask(Task[_Config, _Data, _Trained]):
    """Base class of tasks on meshes."""

    example_data = "builtin"
    data_remedy = "builtin, a folder or an archive"
    writes_report = True
    files = "OBJ, OFF, PLY, STL, VTP, GLB, glTF or 3MF"
    suffixes = MESH_SUFFIXES
    evaluate_arguments: ClassVar[tuple[Argument, ...]] = (
        Argument(
            "--data", "default: the training data of the model", metavar="builtin|DIR|ARCHIVE"
        ),
        EVALUATED_SPLIT,
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )
    predict_arguments = RELOADING

    def resolve_data(self, data: str | None) -> str:
        config: Any = self.config_type
        return data if data is not None and data in config.built_in else super().resolve_data(data)

    def preset_model(self, config: _Config, num_classes: int = 2, **changes: Any) -> Any:
        model: Any = self.trained_type.model_type
        changes |= {"sizes": config.sizes, "inputs": config.inputs}
        return model.preset(config.preset, num_classes, **changes)

    def plan(self, config: _Config, data: _Data, model: Any = None) -> FitPlan:
        source: Any = data
        parts = self._split(data, config, validate=True)
        if model is None:
            model = self._new_model(config, data, parts[0])
        train, test = mesh_sources(config, model, data, parts)
        objective, evaluate = self._fit(config, model, train)
        novelty = partial(mesh_novelty, train, self.trained_type.batch_size)
        shipped = config.split == "folder" or bool(config.fractions)
        is_validated = source.in_val is not None and shipped
        measured = partial(evaluate, test, list(self.measures)[is_validated])
        # a read-out of one stream leaves the last layers of the other unused
        used = getattr(model.config, "streams", "both") == "both"
        return FitPlan(config, model, source.classes, train, objective, measured, used, novelty)

    def _new_model(self, config: _Config, data: Any, train: Tensor) -> Any:
        """Draw the model with initial weights for the data."""
        return self._initial_model(config, len(data.classes))

    def evaluate(self, trained: _Trained, options: argparse.Namespace) -> EvaluationOutput:
        from equigeo.report import render_report  # plotly, which the other commands do without

        config = self._evaluated(options, trained)
        dataset: Any = self.load(config)
        _, test = self._split(dataset, config)
        found, text, summarize = self._evaluation(trained, dataset, test, options.seed or 0)
        seen = describe_trained_on(
            found.trained_on, len(test), "meshes", allowed=options.allow_trained
        )
        results = summarize(trained, found, dataset, options.command_line, config)
        text = "\n\n".join(filter(None, (repair_summary(dataset.reports), text, seen)))
        return EvaluationOutput(text, found.to_dict(), render_report(results))

    def _evaluated(self, options: argparse.Namespace, trained: _Trained) -> Any:
        return evaluated_config(trained.config, options.data, options.split)

    @abstractmethod
    def _split(self, dataset: Any, config: Any, *, validate: bool = False) -> tuple[Tensor, Tensor]:
        """Return positions of the training and of the evaluated meshes."""

    @abstractmethod
    def _fit(self, config: Any, model: Any, train: LabelledMeshes) -> Fit:
        """Return the objective and the evaluation during training."""

    @abstractmethod
    def _evaluation(
        self, trained: Any, dataset: Any, test: Tensor, seed: int
    ) -> tuple[Any, str, Callable[..., dict[str, Any]]]:
        """Return the evaluation, its text, and the function that collects its report."""

    def predict(
        self, trained: _Trained, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        if top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        mesh, report = load_mesh(path, **trained.config.loading)
        notes = "" if report.is_clean and not report.warnings else report.summary()
        graph = trained.model.graph(mesh)
        (score,) = trained.novelties([graph]) or [0.0]
        remark = ""
        if trained.novelty is not None and score > 1:
            remark = f"resembles nothing it was trained on: {trained.novelty.describe(score)}"
        ranked, files, shape, page, values, summary = self._predicted(
            trained, graph, report, top, bool(remark)
        )
        if view:
            from equigeo.report import render_report  # plotly, which the other commands do without

            name = report.path.name
            page["facts"] += report_facts(report.summary())
            page |= {"title": name, "warning": remark and f"{name} {remark}"}
            if mesh.num_faces <= LARGEST_SHOWN:
                page["shapes"] = [shape_geometry(trained.model, name, mesh) | shape]
            # names need not be UTF-8
            files[self.written[-1]] = render_report(page).encode(errors="backslashreplace")
        return FilePrediction(path, ranked[:top], notes, files, remark, summary, values)

    @abstractmethod
    def _predicted(
        self,
        trained: _Trained,
        graph: PrimalDualGraph,
        report: LoadReport,
        top: int,
        unfamiliar: bool,
    ) -> Predicted:
        """Predict one mesh."""


class MeshClassification(MeshTask[MeshConfig, MeshDataset, TrainedMeshClassifier]):
    """Classify triangle meshes with a primal-dual network.

    Examples
    --------
    >>> MeshClassification().name
    'mesh-classification'
    """

    help = "classify triangle meshes"
    data_remedy = "builtin, cubes, a folder or an archive"
    train_arguments = (
        Argument(
            "--data", "the built-in shapes or engraved cubes, or a folder or archive"
            " <class>/{train,test}/<mesh>", metavar="builtin|cubes|DIR|ARCHIVE",
        ),
        replace(
            SPLIT, help=f"as shipped (default), 16, 10 or 5 training meshes per class, or"
            f" {FRACTIONS}", metavar=_SPLITS,
        ),
        _SPLIT_INDEX,
        HOLDOUT, *LOADING, *INPUTS,
    )  # fmt: skip
    evaluate_arguments = (
        Argument(
            "--data", "default: the training data of the model",
            metavar="builtin|cubes|DIR|ARCHIVE",
        ),
        replace(
            EVALUATED_SPLIT, help=f"{EVALUATED_SPLIT.help}; meshes: the test part of folder, 16,"
            " 10, 5 or fractions", metavar=_SPLITS,
        ),
        _SPLIT_INDEX,
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )  # fmt: skip
    measures = dict.fromkeys(("test_accuracy", VALIDATED), "{part} accuracy {value:.2%}")
    written = (".html",)
    trained_type = TrainedMeshClassifier

    def load(self, config: MeshConfig) -> MeshDataset:
        return load_meshes(config.data, split=config.fractions, **config.loading)

    def describe(self, config: MeshConfig, data: MeshDataset) -> str:
        about = f"{len(data)} meshes of {data.num_classes} classes, {config.preset} preset"
        drawn = split_summary(config, data, data.classes, data.labels)
        return ", ".join(filter(None, (about, drawn, repair_summary(data.reports))))

    def _split(
        self, dataset: MeshDataset, config: MeshConfig, *, validate: bool = False
    ) -> tuple[Tensor, Tensor]:
        return split_meshes(dataset, config, validate=validate)

    def _fit(self, config: MeshConfig, model: PrimalDualClassifier, train: LabelledMeshes) -> Fit:
        return CrossEntropy.of(config.recipe, train.labels, model.config.num_classes), _evaluate

    def _evaluated(self, options: argparse.Namespace, trained: TrainedMeshClassifier) -> MeshConfig:
        return _configure(options, trained.config)

    def _evaluation(
        self, trained: TrainedMeshClassifier, dataset: MeshDataset, test: Tensor, seed: int
    ) -> tuple[MeshEvaluation, str, Callable[..., dict[str, Any]]]:
        found = evaluate_mesh_classifier(trained, dataset, test, seed)
        return found, _text(found), summarize_run

    def _predicted(
        self,
        trained: TrainedMeshClassifier,
        graph: PrimalDualGraph,
        report: LoadReport,
        top: int,
        unfamiliar: bool,
    ) -> Predicted:
        logits = trained.logits([graph])[0]
        shown = ranking(trained.classes, logits, _RANKED)
        name, probability = shown[0]
        shape = {"prediction": name, "probability": probability, "unfamiliar": unfamiliar}
        page = {
            "lead": f"Prediction of a {trained.what} of {len(trained.classes)} classes.",
            "facts": [(name, f"{p:.1%}") for name, p in shown],
        }
        return Predicted(ranking(trained.classes, logits, top), {}, shape, page)


classify_file = MeshClassification().predict


def _evaluate(test: LabelledMeshes, name: str, model: nn.Module) -> dict[str, float]:
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    return {name: accuracy(logits, test.labels)}


def _configure(options: argparse.Namespace, config: MeshConfig) -> MeshConfig:
    """Override the data settings of the training configuration with command-line options."""
    index = options.split_index
    if index is None:
        index = config.split_index if options.split in (None, config.split) else 0
    return evaluated_config(config, options.data, options.split, split_index=index)


def _text(evaluation: MeshEvaluation) -> str:
    lines = [
        class_table(evaluation.classes, evaluation.confusion, "meshes"),
        "",
        copies_table(evaluation.copies),
    ]
    for copy in evaluation.copies:
        lines += [f"changed when {copy.kind}: {printable(name)}" for name in copy.changed]
    if evaluation.unfamiliar is not None:
        number, total = len(evaluation.unfamiliar), len(evaluation.names)
        lines += ["", f"resemble nothing it was trained on: {number} of {total} meshes"]
        lines += [f"resembles nothing: {printable(name)}" for name in evaluation.unfamiliar]
    return "\n".join(lines)
