"""Training and evaluation of the models, and the files of a run.

Every task has a configuration, a function that trains and a class that reads its checkpoints; what
they share is ``RunConfig``, ``train_model`` and ``TrainedModel``. Only fitting needs Lightning
(``pip install "equigeo[train]"``); checkpoints are read, evaluated and used without it. Runs are
repeatable by seed, may be killed at any moment, and resume exactly.
"""

from equigeo.training.checkpoint import Checkpoint
from equigeo.training.copy_result import CopyResult
from equigeo.training.errors import CheckpointError, OutputFolderError
from equigeo.training.images.image_config import ImageConfig
from equigeo.training.images.image_evaluation import (
    IMAGE_TESTS,
    ImageEvaluation,
    evaluate_image_classifier,
)
from equigeo.training.images.image_recipes import IMAGE_RECIPES
from equigeo.training.images.logit_change import logit_change
from equigeo.training.images.plain_cnn import PlainCNN
from equigeo.training.images.train_image_classifier import train_image_classifier
from equigeo.training.images.trained_image_classifier import TrainedImageClassifier
from equigeo.training.meshes.divide import divide
from equigeo.training.meshes.evaluation import Evaluation, evaluate_classifier
from equigeo.training.meshes.file_prediction import FilePrediction, classify_file
from equigeo.training.meshes.load_data import BUILTIN, load_data
from equigeo.training.meshes.recipes import RECIPES
from equigeo.training.meshes.summarize_run import summarize_run
from equigeo.training.meshes.train_classifier import train_classifier
from equigeo.training.meshes.train_config import TrainConfig
from equigeo.training.meshes.trained_classifier import TASK, TrainedClassifier
from equigeo.training.points.plain_point_net import PlainPointNet
from equigeo.training.points.point_config import PointConfig
from equigeo.training.points.point_evaluation import PointEvaluation, evaluate_point_classifier
from equigeo.training.points.point_models import POINT_MODELS
from equigeo.training.points.point_preset import PointPreset
from equigeo.training.points.point_presets import POINT_PRESETS
from equigeo.training.points.train_point_classifier import train_point_classifier
from equigeo.training.points.trained_point_classifier import TrainedPointClassifier
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig
from equigeo.training.run_folder import RunFolder
from equigeo.training.time_limit import time_limit
from equigeo.training.tours.tour_config import TourConfig
from equigeo.training.tours.tour_copies import TOUR_COPIES
from equigeo.training.tours.tour_copy_result import TourCopyResult
from equigeo.training.tours.tour_evaluation import DECODINGS, TourEvaluation, evaluate_tour_model
from equigeo.training.tours.tour_recipes import TOUR_RECIPES
from equigeo.training.tours.tour_transfer import TourTransfer
from equigeo.training.tours.train_tour_model import train_tour_model
from equigeo.training.tours.trained_tour_model import TrainedTourModel
from equigeo.training.tours.validation_instances import validation_instances
from equigeo.training.train_model import train_model
from equigeo.training.trained_model import TrainedModel

__all__ = [
    "BUILTIN",
    "DECODINGS",
    "IMAGE_RECIPES",
    "IMAGE_TESTS",
    "POINT_MODELS",
    "POINT_PRESETS",
    "RECIPES",
    "TASK",
    "TOUR_COPIES",
    "TOUR_RECIPES",
    "Checkpoint",
    "CheckpointError",
    "CopyResult",
    "Evaluation",
    "FilePrediction",
    "ImageConfig",
    "ImageEvaluation",
    "OutputFolderError",
    "PlainCNN",
    "PlainPointNet",
    "PointConfig",
    "PointEvaluation",
    "PointPreset",
    "Recipe",
    "RunConfig",
    "RunFolder",
    "TourConfig",
    "TourCopyResult",
    "TourEvaluation",
    "TourTransfer",
    "TrainConfig",
    "TrainedClassifier",
    "TrainedImageClassifier",
    "TrainedModel",
    "TrainedPointClassifier",
    "TrainedTourModel",
    "classify_file",
    "divide",
    "evaluate_classifier",
    "evaluate_image_classifier",
    "evaluate_point_classifier",
    "evaluate_tour_model",
    "load_data",
    "logit_change",
    "summarize_run",
    "time_limit",
    "train_classifier",
    "train_image_classifier",
    "train_model",
    "train_point_classifier",
    "train_tour_model",
    "validation_instances",
]


def __dir__() -> list[str]:
    return __all__
