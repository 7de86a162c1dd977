"""Training loop and files of a run, independent of the task.

Only fitting needs Lightning (``pip install 'lightning>=2.6,<3'``). Runs are repeatable by seed and
resume exactly after an interruption at any moment.
"""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.training.checkpoint import Checkpoint, CheckpointError
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledBatch, LabelledSource
from equigeo.training.loop.session import log_history, time_limit
from equigeo.training.novelty import Novelty
from equigeo.training.objective import CrossEntropy, FitPlan, Objective
from equigeo.training.process import exit_on_sigterm
from equigeo.training.run_folder import OutputFolderError, RunFolder
from equigeo.training.train import preview_run, train_model
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
__dir__ = __all__.copy


_PRIVATE = {
    "RunFolder": ("equigeo.tasks.Task.configure", RunFolder),
    "preview_run": ("equigeo.tasks.Task.preview", preview_run),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
