"""Interface of tasks for training, evaluation and the command line."""

from __future__ import annotations

import argparse
import csv
import io
import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import torch
from torch import nn

import equigeo
from equigeo._core.brief import brief_fields, shown
from equigeo._core.files import replace_file
from equigeo._core.text import shorten
from equigeo.datasets.registry.access import find_data
from equigeo.tasks.common.arguments import Argument
from equigeo.tasks.common.mesh_data import evaluated_part
from equigeo.training.checkpoint import Checkpoint, CheckpointError
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.objective import FitPlan
from equigeo.training.process import enter_stream, isolated_streams
from equigeo.training.run_folder import RunFolder, read_json
from equigeo.training.train import preview_run, train_model
from equigeo.training.trained_model import TrainedModel

if TYPE_CHECKING:
    from equigeo.training.loop.module import L


ALLOW_TRAINED: Final = Argument(
    "--allow-trained",
    "evaluate samples that the model was trained on, too (default: raise an error)",
    constant=True,
)


def describe_trained_on(
    number: int | None,  # None: not recorded in the checkpoint
    total: int,
    samples: str,  # plural noun
    *,
    allowed: object,
) -> str:
    """Return how many evaluated samples were trained on; raise for any unless ``allowed``."""
    if number and not allowed:
        raise ValueError(
            f"{number} of the {total} {samples} to evaluate were trained on, so that results would "
            f"not hold for new ones; choose other data or another split, or {ALLOW_TRAINED.flag}"
        )
    return f"trained on: {number_trained_on(number, total, samples)}"


def number_trained_on(number: int | None, total: int, samples: str) -> str:
    """Return how many evaluated samples were trained on."""
    if number is None:
        return f"unknown, the checkpoint does not record the {samples}"
    return f"{number} of {total} {samples}"


def run_facts(trained: TrainedModel[Any], config: RunConfig, model: str) -> list[tuple[str, str]]:
    """Return model, training, recipe and versions of a run for a report."""
    parameters = sum(p.numel() for p in trained.model.parameters())
    return [
        ("model", f"{model}, {parameters:,} parameters"),
        ("training", f"{trained.epochs_done} epochs, {trained.seconds:.0f} s, seed {config.seed}"),
        ("recipe", ", ".join(f"{k} {v}" for k, v in config.to_dict()["recipe"].items())),
        (
            "versions",
            f"trained by equigeo {trained.version}; evaluated by {equigeo.__version__}, "
            f"torch {torch.__version__}, Python {platform.python_version()}",
        ),
    ]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Base of the results of evaluations, which are dataclasses of JSON types."""

    __repr__ = brief_fields

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class EvaluationOutput:
    """Output of ``equigeo evaluate``: text for the terminal, results (JSON types), HTML report.

    Examples
    --------
    >>> EvaluationOutput("accuracy 50.0%", {"accuracy": 0.5}).results["accuracy"]
    0.5
    """

    text: str
    results: dict[str, Any]
    page: str = ""

    __repr__ = brief_fields

    def write_results(self, path: Path) -> None:
        """Write the results as JSON atomically."""
        replace_file(path, json.dumps(self.results, indent=1) + "\n")

    def write_page(self, path: Path) -> None:
        """Write the report atomically."""
        replace_file(path, self.page)


TABLES: Final = (".csv", ".jsonl")
"""Endings of the files that :func:`write_predictions` writes."""


@dataclass(frozen=True)
class FilePrediction:
    """Predictions for a file: ranked classes, labeled parts or other results.

    Parameters
    ----------
    ranking : list of (str, float)
        Class names with probabilities, or parts with their share of the area, largest first.
    notes : str, repairs and warnings of the loader
    files : mapping of str to bytes
        Contents of files by the end of their name after the stem, such as ``".parts.ply"``.
    remark : str, warning about the ranking
    summary : str, shown instead of a ranking
    values : mapping of str to float, predicted numbers by name

    Examples
    --------
    >>> FilePrediction(Path("a.obj"), [("cat", 0.9), ("dog", 0.1)], "").ranking[0]
    ('cat', 0.9)
    """

    path: Path
    ranking: list[tuple[str, float]]
    notes: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""
    summary: str = ""
    values: Mapping[str, float] = field(default_factory=dict)

    __repr__ = brief_fields

    def write(self, folder: Path, form: str = "") -> list[Path]:
        """Write the files whose names end with ``form`` into a folder; return their paths."""
        files = {suffix: c for suffix, c in self.files.items() if suffix.endswith(form)}
        paths = [folder / f"{self.path.stem}{suffix}" for suffix in files]
        for path, content in zip(paths, files.values(), strict=True):
            replace_file(path, content)
        return paths

    def to_dict(self, written: Sequence[str] = ()) -> dict[str, Any]:
        """Convert to JSON types; ``written`` are the names of written files."""
        return {
            "file": str(self.path),
            "ranking": [[name, share] for name, share in self.ranking],
            "summary": self.summary,
            "values": dict(self.values),
            "remark": self.remark,
            "notes": self.notes,
            "written": list(written),
        }


def write_predictions(
    path: Path,  # `.jsonl` or `.csv`
    rows: Sequence[Mapping[str, Any]],  # from `FilePrediction.to_dict`
) -> None:
    """Write predictions as JSON lines, or as CSV with a row per class or a column per value."""
    if path.suffix.lower() == ".jsonl":
        replace_file(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for row in rows for name in row["values"]))
    if names:
        table.writerow(["file", *names, "remark"])
        found = ([row["values"].get(name) for name in names] for row in rows)
        table.writerows([r["file"], *f, r["remark"]] for r, f in zip(rows, found, strict=True))
        rows = ()
    else:
        table.writerow(["file", "rank", "class", "share", "summary", "remark"])
    for row in rows:
        for rank, (name, share) in enumerate(row["ranking"] or [["", ""]], 1):
            table.writerow([row["file"], rank, name, share, row["summary"], row["remark"]])
    replace_file(path, text.getvalue())


_Config = TypeVar("_Config", bound=RunConfig)
_Data = TypeVar("_Data")
_Trained = TypeVar("_Trained", bound=TrainedModel)


class Task(ABC, Generic[_Config, _Data, _Trained]):
    """Base class of tasks; subclasses define data, model and evaluation.

    This class configures, trains, resumes and summarizes runs.

    Attributes
    ----------
    help : str, one line for the command line
    data_remedy, example_data : str
        Values of ``--data`` for the error message if it is missing, and for examples.
    train_arguments, evaluate_arguments : tuple of Argument
        Options; those of ``equigeo train`` are named like fields of the configuration or its
        recipe, and replace options that all tasks share.
    predict_arguments : tuple of Argument
        Options of ``evaluate`` and ``predict`` that replace fields of the configuration.
    measures : mapping of str to str
        Entries of the history shown after training, with a format of ``value`` and ``part``
        (``held-out`` or ``test``).
    writes_report : bool, whether an evaluation has a report
    files, suffixes : str and tuple of str
        Description and lower-case suffixes of files that ``equigeo predict`` reads.
    writes_files : bool, whether a prediction writes a file without ``--view``
    written : tuple of str
        Suffixes of written files, which are ignored in a folder of files to predict.
    formats : tuple of str
        Alternative formats of a prediction, the default first.
    trained_type : type, result of a run

    Examples
    --------
    >>> from equigeo.tasks import TASKS
    >>> task = TASKS[0]
    >>> task.name, task.config_type.__name__
    ('mesh-classification', 'MeshConfig')
    """

    help: ClassVar[str]
    data_remedy: ClassVar[str] = ""
    example_data: ClassVar[str] = ""
    train_arguments: ClassVar[tuple[Argument, ...]] = ()
    evaluate_arguments: ClassVar[tuple[Argument, ...]] = ()
    predict_arguments: ClassVar[tuple[Argument, ...]] = ()
    measures: ClassVar[Mapping[str, str]]
    writes_report: ClassVar[bool] = False
    files: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    writes_files: ClassVar[bool] = False
    written: ClassVar[tuple[str, ...]] = ()
    formats: ClassVar[tuple[str, ...]] = ()
    trained_type: type[_Trained]

    @property
    def name(self) -> str:
        """Name on the command line and in checkpoints."""
        return self.trained_type.task

    @property
    def config_type(self) -> type[RunConfig]:
        """Configuration class; its recipes are the presets."""
        return self.trained_type.config_type

    @abstractmethod
    def load(self, config: _Config) -> _Data:
        """Load training and evaluation data, or raise ``ValueError``."""

    @abstractmethod
    def describe(self, config: _Config, data: _Data) -> str:
        """Describe the planned training in a few words."""

    @abstractmethod
    def plan(self, config: _Config, data: _Data, model: Any = None) -> FitPlan:
        """Prepare a fit; ``model`` replaces the preset's."""

    def preset_model(self, config: _Config, num_classes: int = 2) -> Any:
        """Build the model of a preset, or return None if it depends on the data."""
        return None

    def _initial_model(self, config: _Config, num_classes: int = 2) -> Any:
        """Draw the model of a preset with the initial weights of a run."""
        enter_stream(config.seed, "model")
        return self.preset_model(config, num_classes)

    def model_settings(self, config: _Config) -> dict[str, Any]:
        """Return the model settings of a preset that do not depend on data, as JSON types."""
        with isolated_streams():
            model = self.preset_model(config)
        settings = {} if model is None else model.config.to_dict()
        return {name: value for name, value in settings.items() if name != "num_classes"}

    @abstractmethod
    def evaluate(self, trained: _Trained, options: argparse.Namespace) -> EvaluationOutput:
        """Evaluate with the options of the command line.

        ``options`` has ``evaluate_arguments`` and ``command_line``; ``data`` is None or resolved.
        """

    def predict(
        self, trained: _Trained, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        """Return the ``top`` classes of a file; ``view`` adds an HTML page."""
        raise NotImplementedError(f"the task {self.name!r} predicts no files")

    def writes(self, trained: _Trained) -> bool:
        """Return whether a prediction of a model writes a file without ``--view``."""
        return self.writes_files

    def resolve_data(self, data: str | None) -> str:
        """Return the configuration's ``data`` for the value of ``--data``."""
        if data is None:
            raise ValueError(f"--data is missing; give {self.data_remedy}")
        return str(find_data(data, self.name))

    def complete_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add options that follow from the given ones; by default none."""
        return options

    def folder(self, output: Path) -> RunFolder:
        """Return the file names of a run."""
        return RunFolder(output, self.config_type)

    def configure(
        self,
        output: Path,
        options: Mapping[str, Any],
        *,
        file: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> RunConfig:
        """Combine options with the configuration of a run to resume, of a file or of a preset.

        Parameters
        ----------
        output : Path
            Folder of the run; it is not changed.
        options : mapping
            Fields of the configuration and of its recipe; None and other names are ignored.
        file : Path, optional
            ``config.json`` of an earlier run, instead of a preset; ignored for a run to resume.
        resume, overwrite : bool
            Start from the configuration in ``output``, or allow another run there.

        Raises
        ------
        ValueError
            If a value is out of range, or the file is unusable or of another preset.
        OutputFolderError
            If ``output`` is unwritable, holds another run, or a damaged configuration to resume.
        """
        options = self.complete_options(options)
        given = _given(self.config_type, options)
        folder = self.folder(output)
        resumed = resume and folder.is_used()
        if "data" in given or not (resumed or file):
            given["data"] = self.resolve_data(given.get("data"))
        if resumed:
            base = folder.saved_config()
        elif file is not None:
            base = self._earlier_config(file, given.get("preset"))
        else:
            names = self.config_type.preset_choices & given.keys()
            base = self.config_type.of_preset(**{name: given[name] for name in names})
        recipe = replace(base.recipe, **_given(Recipe, options))
        config = replace(base, **(given | {"recipe": recipe}))
        folder.check(config, resume=resume, overwrite=overwrite)
        return config

    def _earlier_config(self, file: Path, preset: str | None) -> RunConfig:
        """Read the configuration of an earlier run; raise if its recipe is of another preset."""
        try:
            config = self.config_type.from_dict(read_json(file))
        except ValueError as error:
            cause = shorten(" ".join(str(error).split()), 300)
            raise ValueError(
                f"{file}: not a configuration of {self.name} ({cause}); "
                f"pass the config.json of a run of {self.name}"
            ) from error
        if preset not in (None, config.preset):
            raise ValueError(
                f"{file}: has the recipe of the preset {config.preset}, asked {preset}; "
                "leave out one of them"
            )
        return config

    def train(
        self,
        config: _Config,
        output: Path,
        *,
        data: _Data | None = None,
        model: nn.Module | None = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: bool = False,
        callbacks: Sequence[L.Callback] = (),
    ) -> _Trained:
        """Train and write ``config.json``, ``history.json`` and ``model.ckpt``.

        Parameters
        ----------
        data : optional
            Result of :meth:`load`, if it is in memory.
        model : torch.nn.Module, optional
            Trained in place instead of the preset's. Fitted statistics of its features are kept.
        output, resume, overwrite, progress, callbacks
            See :func:`equigeo.training.train_model`, also for errors.
        """
        return train_model(
            self.trained_type,
            config,
            output,
            partial(self._prepare, config, data, model),
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            callbacks=callbacks,
        )

    def preview(
        self,
        config: _Config,
        output: Path,
        *,
        data: _Data | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> list[tuple[str, str]]:
        """Return what :meth:`train` would train, as names and values; nothing is written."""
        plan = partial(self._prepare, config, data, None)
        return preview_run(
            self.trained_type, config, output, plan, resume=resume, overwrite=overwrite
        )

    def _prepare(self, config: _Config, data: _Data | None, model: nn.Module | None) -> FitPlan:
        return self.plan(config, self.load(config) if data is None else data, model)

    def summarize(self, trained: _Trained) -> list[str]:
        """Return the measures of a finished run, one per line."""
        last = trained.history[-1]
        part = evaluated_part(trained)
        return [
            form.format(value=last[name], part=part)
            for name, form in self.measures.items()
            if last.get(name) is not None
        ]


def _given(owner: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are fields of a dataclass and were given."""
    names = [field.name for field in fields(owner)]
    return {name: options[name] for name in names if options.get(name) is not None}


def find_task(checkpoint: Path, tasks: Sequence[Task[Any, Any, Any]]) -> Task[Any, Any, Any]:
    """Return the task of a checkpoint, or raise ``CheckpointError``.

    Examples
    --------
    >>> import tempfile
    >>> from equigeo.tasks import TASKS
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "model.ckpt"
    ...     Checkpoint("tsp", {}, {}, {}).save(file)
    ...     find_task(file, TASKS).name
    'tsp'
    """
    name = Checkpoint.load(checkpoint).task
    for task in tasks:
        if task.name == name:
            return task
    known = ", ".join(repr(task.name) for task in tasks)
    raise CheckpointError(
        f"{checkpoint}: is for the task {shown(name)}, expected one of {known}; "
        "pass a checkpoint of one of them"
    )
