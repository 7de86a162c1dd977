"""Training and evaluation of the models, and the files of a run.

Only fitting needs Lightning (``pip install "equigeo[train]"``); checkpoints are read, evaluated and
used without it. Runs are repeatable by seed, may be killed at any moment, and resume exactly.
"""

from equigeo.training.checkpoint import Checkpoint
from equigeo.training.divide import divide
from equigeo.training.errors import CheckpointError, OutputFolderError
from equigeo.training.evaluation import CopyResult, Evaluation, evaluate_classifier
from equigeo.training.file_prediction import FilePrediction, classify_file
from equigeo.training.load_data import BUILTIN, load_data
from equigeo.training.recipe import Recipe
from equigeo.training.recipes import RECIPES
from equigeo.training.run_folder import RunFolder
from equigeo.training.summarize_run import summarize_run
from equigeo.training.train_classifier import train_classifier
from equigeo.training.train_config import TrainConfig
from equigeo.training.trained_classifier import TASK, TrainedClassifier

__all__ = [
    "BUILTIN",
    "RECIPES",
    "TASK",
    "Checkpoint",
    "CheckpointError",
    "CopyResult",
    "Evaluation",
    "FilePrediction",
    "OutputFolderError",
    "Recipe",
    "RunFolder",
    "TrainConfig",
    "TrainedClassifier",
    "classify_file",
    "divide",
    "evaluate_classifier",
    "load_data",
    "summarize_run",
    "train_classifier",
]
