"""The Lightning module of mesh classification."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.mesh import PrimalDualClassifier
from equigeo.training.build_optimizer import build_optimizer
from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.lightning import L
from equigeo.training.random_state import enter_stream
from equigeo.training.train_config import TrainConfig
from equigeo.training.weight_average import WeightAverage


class MeshClassification(L.LightningModule):
    """Cross-entropy training of a classifier on labelled graphs.

    Parameters
    ----------
    model : PrimalDualClassifier
        With fitted standardisation.
    config : TrainConfig
        Seed and recipe.
    steps_per_epoch : int
        Length of an epoch, for the schedule.
    resumed : dict, optional
        What ``training_state`` gave at the end of an earlier epoch.
    """

    def __init__(
        self,
        model: PrimalDualClassifier,
        config: TrainConfig,
        steps_per_epoch: int,
        resumed: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.first_epoch = 0
        self.average = WeightAverage(config.recipe.ema_decay) if config.recipe.ema_decay else None
        self._config, self._steps_per_epoch, self._resumed = config, steps_per_epoch, resumed
        if resumed is not None:
            self.first_epoch = int(resumed["epochs"])
            self.model.load_state_dict(resumed["weights"])
            if self.average is not None:
                self.average.load_state_dict(resumed["average"])
        self._tally = torch.zeros(3)  # sums of loss, correct and seen meshes

    @property
    def epoch(self) -> int:
        """Number of the current epoch in the whole run, resumed parts included."""
        return self.first_epoch + int(self.current_epoch)

    def on_train_epoch_start(self) -> None:
        """Start counting anew."""
        self._tally = torch.zeros(3)

    def training_step(self, batch: LabelledBatch, step: int) -> Tensor:
        """Give the loss of a batch.

        Processes may hold shares of different size, and gradients are averaged over processes:
        the sum over the share, times processes over meshes, averages to the mean over the batch.
        Every step has a random stream of its own, which makes dropout independent of whatever
        drew numbers before it, and resuming exact.
        """
        enter_stream(self._config.seed, "step", self.epoch, step, self.global_rank)
        logits = self.model(batch.graph)
        smoothing = self._config.recipe.label_smoothing
        loss = F.cross_entropy(logits, batch.labels, label_smoothing=smoothing, reduction="sum")
        correct = (logits.detach().argmax(dim=1) == batch.labels).sum()
        seen = torch.full_like(correct, len(batch.labels))
        self._tally = self._tally.to(loss.device) + torch.stack([loss.detach(), correct, seen])
        return loss * (self.trainer.world_size / batch.total)

    def on_train_batch_end(self, outputs: Any, batch: LabelledBatch, batch_idx: int) -> None:
        """Update the average of the weights."""
        if self.average is not None:
            self.average.update(self.model)

    def configure_optimizers(self) -> Any:
        """Build optimiser and schedule, or continue those of the resumed run."""
        recipe = self._config.recipe
        optimizer, schedule = build_optimizer(
            self.model.parameters(), recipe, self._steps_per_epoch
        )
        if self._resumed is not None:
            optimizer.load_state_dict(self._resumed["optimizer"])
            if schedule is not None:
                schedule.load_state_dict(self._resumed["schedule"])
        if schedule is None:
            return optimizer
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def tally(self, over_processes: bool = False) -> tuple[float, float]:
        """Give mean loss and accuracy of the epoch so far.

        Parameters
        ----------
        over_processes : bool
            Sum over all processes; all of them must call.
        """
        sums = self._tally.double()
        if over_processes:
            sums = self.trainer.strategy.reduce(sums, reduce_op="sum")
        loss, correct, seen = sums.tolist()
        return loss / max(seen, 1), correct / max(seen, 1)

    def evaluated_model(self) -> PrimalDualClassifier:
        """Give the model to evaluate and save: the average where there is one."""
        if self.average is None:
            return self.model
        model = copy.deepcopy(self.model)
        model.load_state_dict(self.average.state)
        return model

    def training_state(self) -> dict[str, Any]:
        """Give, at the end of an epoch, all that another process needs to continue."""
        optimizer, schedule = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        if isinstance(optimizer, list) or isinstance(schedule, list):
            raise RuntimeError("a run has one optimiser and at most one schedule")
        return {
            "epochs": self.epoch + 1,
            "weights": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": None if schedule is None else schedule.state_dict(),
        }
