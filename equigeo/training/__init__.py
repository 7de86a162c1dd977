"""Training loop and files of a run, independent of the task.

Only fitting needs Lightning (``pip install 'lightning>=2.6,<3'``). Runs are repeatable by seed and
resume exactly after an interruption at any moment.
"""

from equigeo._deprecation import Renamed, renamed
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.exit_on_sigterm import exit_on_sigterm
from equigeo.training.files.checkpoint import Checkpoint
from equigeo.training.files.errors import CheckpointError, OutputFolderError
from equigeo.training.files.run_folder import RunFolder as _RunFolder
from equigeo.training.labelled_source import LabelledBatch, LabelledSource
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.loop.log_history import log_history
from equigeo.training.loop.time_limit import time_limit
from equigeo.training.novelty import Novelty
from equigeo.training.objective import Objective
from equigeo.training.preview_run import preview_run as _preview_run
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig
from equigeo.training.train_model import train_model
from equigeo.training.trained_model import TrainedModel

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CrossEntropy",
    "FitPlan",
    "LabelledBatch",
    "LabelledSource",
    "Novelty",
    "Objective",
    "OutputFolderError",
    "Recipe",
    "RunConfig",
    "TrainedModel",
    "exit_on_sigterm",
    "log_history",
    "time_limit",
    "train_model",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "RunFolder": ("equigeo.tasks.Task.configure", _RunFolder),
    "preview_run": ("equigeo.tasks.Task.preview", _preview_run),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
