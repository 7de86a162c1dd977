"""Configuration, objective, evaluation and command-line task of mesh regression."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.brief import brief_fields
from equigeo._core.config import Range
from equigeo._core.text import printable
from equigeo.datasets import MeshRegressionDataset, ellipsoids, load_regression_folder
from equigeo.datasets.regression import TargetsAt
from equigeo.mesh import LoadReport, PrimalDualClassifier, PrimalDualGraph, PrimalDualSegmenter
from equigeo.mesh.geometry.features import AreaShares
from equigeo.mesh.io.ply import format_ply
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.tasks.common.arguments import Argument, words
from equigeo.tasks.common.measures import classify, face_areas
from equigeo.tasks.common.mesh_data import (
    BUILTIN,
    HOLDOUT,
    INPUTS,
    LARGEST_SHOWN,
    LOADING,
    SPLIT,
    MeshRunConfig,
    shape_geometry,
    split_summary,
    warn_of_lost_area,
)
from equigeo.tasks.mesh_classification.run import (
    BATCH_SIZE,
    LabelledMeshes,
    TrainedMeshModel,
    mesh_digests,
)
from equigeo.tasks.mesh_classification.task import (
    Fit,
    MeshTask,
    Predicted,
    mesh_run_summary,
    random_copies,
)
from equigeo.tasks.mesh_segmentation.task import (
    SEGMENTED_COPIES,
    mesh_mean_weights,
    split_segmented_meshes,
)
from equigeo.tasks.task import Evaluation
from equigeo.training.config import Recipe
from equigeo.training.data import LabelledBatch
from equigeo.training.objective import Objective
from equigeo.training.process import enter_stream

REGRESSION_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=60, batch_size=8, learning_rate=1e-2, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01, clip_norm=1.0,
    ),
}  # fmt: skip

_LOSSES: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "mse": torch.square,
    "mae": torch.abs,
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none"),
}
_ALIKE = 0.9  # rank correlation with the area, beyond which a target follows the size
_FEWEST = 8  # meshes for this correlation
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MeshRegressionConfig(MeshRunConfig):
    """Configuration of a regression run, saved as ``config.json``.

    Parameters
    ----------
    data : str
        ``"builtin"``, or the path of a folder or archive; see
        ``equigeo.datasets.load_regression_folder``.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    merge, min_component
        See ``equigeo.mesh.load_mesh``.
    sizes, inputs
        See ``equigeo.mesh.ClassifierConfig``; without sizes, predictions do not depend on scale.
    split : str
        "folder", or the fractions of ``equigeo.datasets.load_mesh_folder``, separated by commas.
    at : {"mesh", "faces", "vertices"}
        Elements with targets.
    targets : tuple of str
        Columns of the table or properties of the files; by default all columns.
    loss : {"mse", "mae", "huber"}
        Of the errors over the deviation of each target, averaged per mesh.
    preset : {"default"}, model and recipe
    holdout : int
        If positive, evaluate on this number of training meshes instead of the test meshes.

    Examples
    --------
    >>> config = MeshRegressionConfig("builtin", sizes=("volume",))
    >>> MeshRegressionConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = REGRESSION_RECIPES["default"]
    preset: Literal["default"] = "default"
    at: TargetsAt = "mesh"
    targets: tuple[str, ...] = ()
    loss: Literal["mse", "mae", "huber"] = "mse"
    holdout: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = REGRESSION_RECIPES
    samples: ClassVar[str] = "meshes with targets"
    # A changed mesh has other targets; norms are fixed before the training.
    unused: ClassVar[tuple[str, ...]] = (
        *MeshRunConfig.unused, "label_smoothing", "logit_adjustment", "update_bn",
    )  # fmt: skip
    ranges: ClassVar[Mapping[str, Range]] = {**MeshRunConfig.ranges, "holdout": Range(0, 10**6)}


@dataclass(frozen=True)
class TargetError(Objective):
    """Loss of the errors over the deviations of the targets; unknown targets do not count."""

    loss: str = "mse"
    deviations: tuple[float, ...] = ()  # of each target; empty: 1

    measure, form, evaluated = "error", ".3f", "test_error"
    __repr__ = brief_fields

    def sums(
        self,
        model: nn.Module,  # returns (elements of all meshes, targets)
        batch: LabelledBatch,  # labels (meshes, most elements, targets), padded by infinity
    ) -> tuple[Tensor, Tensor]:
        for norm in _batch_norms(model):  # see `fix_norms`
            norm.eval()
        outputs = model(batch.inputs)
        present = ~batch.labels[..., 0].isinf()
        targets, mesh = batch.labels[present], present.nonzero()[:, 0]
        known = ~targets.isnan()
        errors = outputs - targets.nan_to_num().to(outputs.dtype)
        errors = torch.where(known, errors / errors.new_tensor(self.deviations or (1.0,)), 0.0)
        of_mesh = mesh.repeat_interleave(targets.shape[1])
        weights = mesh_mean_weights(of_mesh, known.flatten(), len(present)).to(errors.dtype)
        losses = _LOSSES[self.loss](errors).flatten()
        return losses @ weights, errors.detach().abs().flatten() @ weights

    def counted(self, batch: LabelledBatch) -> int:
        return int(batch.labels.isfinite().flatten(1).any(dim=1).sum())


def _batch_norms(model: nn.Module) -> list[nn.BatchNorm1d]:
    return [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]


@torch.no_grad()
def fix_norms(model: nn.Module, train: LabelledMeshes) -> None:
    """Set the statistics of batch norms to those of the initial weights on the training meshes."""
    # Of few meshes, whose faces are alike, statistics differ so much from batch to batch that
    # averages of them, layer after layer, give numbers without any bound.
    for norm in _batch_norms(model):
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    for batch in train.batches(len(train)):
        model(batch.inputs)
    for norm in _batch_norms(model):
        norm.momentum = 0.1


def target_moments(
    targets: Sequence[Tensor],  # (elements, targets) per training mesh
    names: Sequence[str],
) -> dict[str, tuple[float, ...]]:
    """Return means and deviations of known targets, or raise for a target without variation."""
    moments = []
    for name, column in zip(names, torch.cat(list(targets)).unbind(1), strict=True):
        known = column[~column.isnan()]
        deviation = known.std(unbiased=False).item() if len(known) else 0.0
        # Rounding leaves of a constant what is below 10 machine epsilons.
        if deviation <= 10 * torch.finfo(known.dtype).eps * sum(known[:1].abs().tolist()):
            given = f"is {known[0]:g}" if len(known) else "is unknown"
            raise ValueError(
                f"target {name!r} {given} in all training meshes; choose others with --targets"
            )
        mean = known.mean().item()
        if deviation < 100 * torch.finfo(torch.float32).eps * abs(mean):
            raise ValueError(
                f"target {name!r} varies by {deviation:.1g} about {mean:.8g}, which float32 "
                "cannot resolve; subtract a constant from the values beforehand"
            )
        moments.append((mean, deviation))
    means, deviations = zip(*moments, strict=True)
    return {"means": means, "deviations": deviations}


class TrainedMeshRegressor(TrainedMeshModel[MeshRegressionConfig]):
    """Trained mesh regressor, as ``equigeo evaluate`` and ``predict`` load it.

    ``classes`` are the names of the targets, and ``outputs(meshes)`` returns them in their units.
    """

    task, what, config_type = "mesh-regression", "mesh regressor", MeshRegressionConfig
    batch_size = BATCH_SIZE

    @classmethod
    def build(cls, model: dict[str, Any], config: MeshRegressionConfig) -> Any:
        return _model_type(config).from_config(model)


def _model_type(config: MeshRegressionConfig) -> Any:
    return PrimalDualClassifier if config.at == "mesh" else PrimalDualSegmenter


@dataclass(frozen=True, repr=False)
class RegressionEvaluation(Evaluation):
    """Errors of known targets in their units, over all elements of the evaluated meshes."""

    targets: list[str]
    names: list[str]
    mae: list[float | None]  # per target; None without known values
    rmse: list[float | None]
    r2: list[float | None]  # 1 - MSE / variance; None for a constant
    predictions: list[list[list[float]]]  # per mesh (elements, targets)
    copies: dict[str, float]  # largest change of an output over the deviation, by kind of copy
    trained_on: int | None = None  # number of training meshes; None if not recorded


def evaluate_mesh_regressor(
    regressor: TrainedMeshRegressor, dataset: MeshRegressionDataset, indices: Tensor, seed: int = 0
) -> RegressionEvaluation:
    """Predict targets of meshes of a data set, and of copies that are determined by ``seed``.

    Examples
    --------
    >>> from equigeo.datasets import ellipsoids
    >>> data = ellipsoids(number=4, subdivisions=0)
    >>> model = PrimalDualClassifier.preset("default", num_classes=2).eval()
    >>> config = MeshRegressionConfig("builtin")  # not trained
    >>> trained = TrainedMeshRegressor(model, data.target_names, config, "0.3.0")
    >>> evaluate_mesh_regressor(trained, data, torch.tensor([3])).targets
    ['sphericity', 'volume']
    """
    if len(indices) == 0:
        raise ValueError("the evaluated part of the data has no meshes; choose another split")
    at = regressor.config.at
    if (dataset.targets_at, dataset.target_names) != (at, regressor.classes):
        raise ValueError(
            f"the data have {', '.join(dataset.target_names)} of {dataset.targets_at}, but the "
            f"checkpoint predicts {', '.join(regressor.classes)} of {at}; evaluate on such data"
        )
    chosen = indices.tolist()
    meshes, names = [dataset.meshes[i] for i in chosen], [dataset.names[i] for i in chosen]
    predictions = regressor.outputs(meshes)
    found, targets = torch.cat(predictions), torch.cat([dataset.targets[i] for i in chosen])
    measures = [_errors(*pair) for pair in zip(found.unbind(1), targets.unbind(1), strict=True)]
    mae, rmse, r2 = map(list, zip(*measures, strict=True))
    scale = torch.tensor(regressor.model.config.deviations or (1.0,))
    copies = {}
    for kind in SEGMENTED_COPIES:
        if kind == "scaled" and regressor.config.sizes:
            continue
        moved = torch.cat(regressor.outputs(random_copies(meshes, kind, seed, chosen)))
        copies[kind] = ((moved - found) / scale).abs().max().item()
    return RegressionEvaluation(
        targets=list(regressor.classes),
        names=names,
        mae=mae,
        rmse=rmse,
        r2=r2,
        predictions=[rows.tolist() for rows in predictions],
        copies=copies,
        trained_on=regressor.trained_on(mesh_digests(meshes)),
    )


def _errors(found: Tensor, target: Tensor) -> tuple[float | None, float | None, float | None]:
    """Return MAE, RMSE and coefficient of determination of known targets."""
    known = ~target.isnan()
    if not bool(known.any()):
        return None, None, None
    target, error = target[known], (found.double() - target)[known]
    variance, square = target.var(unbiased=False).item(), error.square().mean().item()
    return error.abs().mean().item(), square**0.5, 1 - square / variance if variance else None


def _evaluate(test: LabelledMeshes, name: str, model: nn.Module) -> dict[str, float]:
    """Return the mean over targets of MAE over deviation; nothing without known targets."""
    found = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    errors = (found.double() - torch.cat(list(test.labels))).abs().nanmean(dim=0)
    config: Any = model.config
    errors = (errors / errors.new_tensor(config.deviations or (1.0,))).nanmean()
    return {} if bool(errors.isnan()) else {name: errors.item()}


def summarize_regression(
    regressor: TrainedMeshRegressor,
    evaluation: RegressionEvaluation,
    dataset: MeshRegressionDataset,
    command: str,
    config: MeshRegressionConfig | None = None,
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_report``, as JSON types."""
    config = config or regressor.config
    facts = [
        (name, ", ".join(_measures(evaluation, i))) for i, name in enumerate(regressor.classes)
    ]
    for kind, change in evaluation.copies.items():
        facts.append((f"largest change if {kind}", f"{change:.1e} deviations"))
    facts += [("data", config.data), ("inputs", _scale(config))]
    meshes = dict(zip(dataset.names, dataset.meshes, strict=True))
    shown = [name for name in evaluation.names if meshes[name].num_faces <= LARGEST_SHOWN]
    return {
        "title": "Mesh regression",
        "lead": f"A primal-dual network that predicts numbers per {_EACH[config.at]}.",
        "command": command,
        **mesh_run_summary(regressor, config, facts, evaluation),
        "measure": "error over the deviation of the targets",
        "shapes": [shape_geometry(regressor.model, x, meshes[x]) for x in shown[:_SHOWN]],
    }


_SHOWN = 6  # shapes, which fill two rows of a wide window
_EACH: Final = {"mesh": "mesh", "faces": "face", "vertices": "vertex"}


def _scale(config: MeshRegressionConfig) -> str:
    if config.sizes:
        return f"shape and {', '.join(config.sizes)} of a mesh"
    return "shape alone: predictions do not depend on the scale of a mesh"


def _measures(evaluation: RegressionEvaluation, i: int) -> list[str]:
    values = {"MAE": evaluation.mae[i], "RMSE": evaluation.rmse[i], "R2": evaluation.r2[i]}
    return [f"{name} {'-' if x is None else f'{x:.4g}'}" for name, x in values.items()]


def _text(evaluation: RegressionEvaluation) -> str:
    width = max(map(len, map(printable, evaluation.targets)))
    lines = []
    for i, name in enumerate(evaluation.targets):
        cells = "  ".join(f"{cell:<16}" for cell in _measures(evaluation, i))
        lines.append(f"{printable(name):<{width}}  {cells}".rstrip())
    lines += ["", "largest change of a prediction, in deviations of the target"]
    lines += [f"{kind:<14}  {change:.1e}" for kind, change in evaluation.copies.items()]
    return "\n".join(lines)


class MeshRegression(MeshTask[MeshRegressionConfig, MeshRegressionDataset, TrainedMeshRegressor]):
    """Predict numbers per mesh, face or vertex with a primal-dual network.

    Examples
    --------
    >>> MeshRegression().name
    'mesh-regression'
    """

    help = "predict numbers per mesh, face or vertex"
    train_arguments = (
        Argument(
            "--data", "generated ellipsoids, or a folder or archive {train,val,test}/<mesh> with"
            " targets.csv, or with targets/<mesh>.npy or .txt, or properties of PLY files",
            metavar="builtin|DIR|ARCHIVE",
        ),
        Argument("--at", "elements with targets", choices=("mesh", "faces", "vertices")),
        Argument(
            "--targets", "columns or properties to predict (default: all columns)", words,
            metavar="NAME,...",
        ),
        Argument(
            "--loss", "of errors in deviations of the target", choices=("mse", "mae", "huber")
        ),
        SPLIT, HOLDOUT, *LOADING, *INPUTS,
    )  # fmt: skip
    measures = dict.fromkeys(
        ("test_error", "val_error"), "{part} error {value:.3f} deviations of the targets"
    )
    written = (".values.ply", ".values.html")
    trained_type = TrainedMeshRegressor

    def load(self, config: MeshRegressionConfig) -> MeshRegressionDataset:
        if config.data == BUILTIN:
            data = ellipsoids(config.at)
            unknown = sorted(set(config.targets) - {*data.target_names})
            if unknown:
                raise ValueError(f"builtin has targets {data.target_names}, got {unknown}")
            kept = [data.target_names.index(x) for x in config.targets or data.target_names]
            data = replace(
                data, targets=tuple(rows[:, kept] for rows in data.targets),
                target_names=tuple(data.target_names[i] for i in kept),
            )  # fmt: skip
        else:
            data = load_regression_folder(
                config.data, config.targets, config.at, config.fractions, **config.loading
            )
            warn_of_lost_area(data.names, data.reports)
        if not config.sizes:
            warn_of_sizes(data)
        return data

    def describe(self, config: MeshRegressionConfig, data: MeshRegressionDataset) -> str:
        what = f"{', '.join(map(printable, data.target_names))} per {_EACH[data.targets_at]}"
        about = f"{len(data)} meshes with {what}, {config.preset} preset, {_scale(config)}"
        return ", ".join(filter(None, (about, split_summary(config, data))))

    def preset_model(
        self, config: MeshRegressionConfig, num_classes: int = 2, **changes: Any
    ) -> Any:
        # A batch norm in the head would compare a mesh with others of its batch.
        own = {"hidden": 64} if config.at == "mesh" else {"outputs_at": config.at}
        options = {"dropout": 0.0, "sizes": config.sizes, "inputs": config.inputs, **own, **changes}
        return _model_type(config).preset(config.preset, num_classes, **options)

    def _new_model(
        self, config: MeshRegressionConfig, data: MeshRegressionDataset, train: Tensor
    ) -> Any:
        moments = target_moments([data.targets[i] for i in train.tolist()], data.target_names)
        enter_stream(config.seed, "model")
        return self.preset_model(config, len(data.target_names), **moments)

    def _evaluated(
        self, options: argparse.Namespace, trained: TrainedMeshRegressor
    ) -> MeshRegressionConfig:
        # a table may have other columns, too, and in another order
        return replace(super()._evaluated(options, trained), targets=trained.classes)

    def _split(self, dataset: Any, config: Any, *, validate: bool = False) -> tuple[Tensor, Tensor]:
        return split_segmented_meshes(dataset, config, validate=validate)

    def _fit(self, config: MeshRegressionConfig, model: Any, train: LabelledMeshes) -> Fit:
        if not any(norm.num_batches_tracked for norm in _batch_norms(model)):
            fix_norms(model, train)
        return TargetError(config.loss, model.config.deviations), _evaluate

    def _evaluation(
        self, trained: TrainedMeshRegressor, dataset: Any, test: Tensor, seed: int
    ) -> tuple[RegressionEvaluation, str, Callable[..., dict[str, Any]]]:
        found = evaluate_mesh_regressor(trained, dataset, test, seed)
        return found, _text(found), summarize_regression

    def _predicted(
        self,
        trained: TrainedMeshRegressor,
        graph: PrimalDualGraph,
        report: LoadReport,
        top: int,
        unfamiliar: bool,
    ) -> Predicted:
        (rows,) = trained.outputs([graph])
        lead = f"Numbers predicted by a {trained.what} per {_EACH[trained.config.at]}."
        if trained.config.at == "mesh":
            values = dict(zip(trained.classes, rows[0].tolist(), strict=True))
            facts = [(name, f"{x:.6g}") for name, x in values.items()]
            files = {}
        else:
            values = {}
            spread = zip(rows.amin(dim=0).tolist(), rows.amax(dim=0).tolist(), strict=True)
            ranges = [f"{low:.6g} to {high:.6g}" for low, high in spread]
            facts = list(zip(trained.classes, ranges, strict=True))
            files = {self.written[0]: _value_file(trained, rows.double(), graph, report)}
        summary = ", ".join(f"{name} {x}" for name, x in facts)
        return Predicted([], files, {}, {"lead": lead, "facts": facts}, values, summary)


def _value_file(
    trained: TrainedMeshRegressor,
    rows: Tensor,  # (elements, targets)
    graph: PrimalDualGraph,
    report: LoadReport,
) -> bytes:
    """Format the polygons of the file with values of their faces or vertices, NaN if dropped."""
    file = read_mesh_file(report.path)
    if trained.config.at == "faces":  # means over the triangles of a polygon, by area
        area = cast("AreaShares", graph.shares).primal[:, None]
        total = rows.new_zeros(report.file_faces, 1 + rows.shape[1])
        total = total.index_add(0, report.kept_faces, torch.cat((area, area * rows), dim=1))
        values = total[:, 1:] / total[:, :1]
    else:
        values = torch.cat((rows, rows.new_full((1, rows.shape[1]), torch.nan)))[report.vertex_map]
    columns = dict(zip(trained.classes, values.unbind(1), strict=True))
    if trained.config.at == "faces":
        return format_ply(file, face_values=columns)
    return format_ply(file, vertex_values=columns)


def warn_of_sizes(data: MeshRegressionDataset) -> None:
    """Log a warning if targets of the training meshes follow the size of the mesh."""
    chosen = data.in_train.nonzero().flatten().tolist()
    if len(chosen) < _FEWEST:
        return
    area = torch.stack([face_areas(data.meshes[i]).sum() for i in chosen])
    values = torch.stack([data.targets[i].abs().nanmean(dim=0) for i in chosen])
    follow = []
    for name, column in zip(data.target_names, values.unbind(1), strict=True):
        known = ~column.isnan()
        ranks = torch.stack([x[known].argsort().argsort().double() for x in (area, column)])
        if len(ranks[0]) >= _FEWEST and abs(torch.corrcoef(ranks)[0, 1]) > _ALIKE:
            follow.append(name)
    if follow:
        _log.warning(
            "%s: values follow the size of the mesh, and predictions do not depend on it; to read "
            "sizes: --sizes area,volume,length", printable(", ".join(follow)),
        )  # fmt: skip
