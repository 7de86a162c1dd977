"""Interface of tasks for training, evaluation and the command line."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import nn

from equigeo._brief import shown
from equigeo._text import shorten
from equigeo.datasets.registry.find_data import find_data
from equigeo.tasks.arguments import Argument
from equigeo.tasks.evaluation_output import EvaluationOutput
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.hold_out import evaluated_part
from equigeo.training.files.checkpoint import Checkpoint
from equigeo.training.files.errors import CheckpointError
from equigeo.training.files.read_config import read_config
from equigeo.training.files.run_folder import RunFolder
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.preview_run import preview_run
from equigeo.training.random_state import isolated_streams
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig
from equigeo.training.train_model import train_model
from equigeo.training.trained_model import TrainedModel

if TYPE_CHECKING:
    from equigeo.training.loop.lightning import L

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
        Options; those of ``equigeo train`` are named like fields of the configuration.
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

    def preset_model(self, config: _Config) -> Any:
        """Build the model of a preset, for two classes unless the configuration decides."""
        return None

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
            config = read_config(file, self.config_type)
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
        part = evaluated_part(trained.config)
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
