"""Lightning, imported with a remedy and without its advice, and the module of every task."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils.data import DataLoader

from equigeo.nn.module import evaluating
from equigeo.training.config import build_optimizer
from equigeo.training.data import AnyBatch, EpochBatches, LabelledBatch
from equigeo.training.objective import FitPlan, Objective, known_gradients
from equigeo.training.process import enter_stream

try:
    import lightning as L
except ImportError as _error:
    raise ImportError("training needs Lightning: pip install 'lightning>=2.6,<3'") from _error

__all__ = ["L", "quiet_lightning", "silence_lightning"]

_ADVICE = (
    ".*does not have many workers.*",  # batches are assembled in memory
    ".*GPU available but not used.*",
    ".*isinstance\\(treespec, LeafSpec\\).*",  # Lightning's own use of a deprecated test
    ".*is smaller than the logging interval.*",
    "Grad strides do not match bucket view strides",  # of matrices with one row
)
_LOGGERS = ("lightning.pytorch", "lightning.fabric")


def silence_lightning() -> None:
    """Hide Lightning's advice for the rest of the process."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in _ADVICE:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide hardware inventories and tips in a block; other warnings stay."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            silence_lightning()
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def sums_of_parts(
    objective: Objective,
    model: nn.Module,  # in training mode
    batch: AnyBatch,
) -> tuple[Tensor, Tensor]:
    """Sum loss and measure over the parts of a batch, with accumulated gradients."""
    if len(batch.parts) == 1:
        return objective.sums(model, batch.parts[0])
    parameters = [p for p in model.parameters() if p.requires_grad]
    slopes: list[Tensor | None] = [None] * len(parameters)
    losses, measures = [], []
    # Batch norms normalize each part separately. Its memory is freed before the next.
    for part in batch.parts:
        loss, measure = objective.sums(model, part)
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        pairs = zip(slopes, found, strict=True)
        slopes = [b if a is None else a if b is None else a + b for a, b in pairs]
        losses.append(loss.detach())
        measures.append(measure.detach())
    reached = [(p, g) for p, g in zip(parameters, slopes, strict=True) if g is not None]
    total = known_gradients(
        torch.stack(losses).sum(), [p for p, _ in reached], [g for _, g in reached]
    )
    return total, torch.stack(measures).sum()


@torch.no_grad()
def update_bn(
    model: nn.Module,
    batches: Iterable[Any],  # each of samples of all classes
    run: Callable[[nn.Module, Any], object],  # runs the model, its first argument, on a batch
) -> None:
    """Replace the running statistics of BatchNorm layers by averages over batches."""
    # PreciseBN: Wu and Johnson, "Rethinking 'Batch' in BatchNorm", 2021, section 3. Unlike
    # `torch.optim.swa_utils.update_bn`, other layers are in evaluation mode, so without dropout.
    norms = tracking_norms(model)
    if not norms:
        return
    kept = [
        (norm, norm.momentum, {name: x.clone() for name, x in norm.named_buffers(recurse=False)})
        for norm in norms
    ]
    with evaluating(model):
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # a cumulative average
                norm.training = True
            for batch in batches:
                run(model, batch)
        finally:
            for norm, momentum, buffers in kept:
                norm.momentum = momentum
                if norm.num_batches_tracked == 0:
                    norm.load_state_dict(buffers, strict=False)


def tracking_norms(model: nn.Module) -> list[_BatchNorm]:
    """Return the BatchNorm layers with trained running statistics."""
    return [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm)
        and module.running_mean is not None
        and not _is_frozen(module, model)
    ]


def _is_frozen(norm: _BatchNorm, model: nn.Module) -> bool:
    """Return whether a layer and its statistics are excluded from training."""
    parameters = list(norm.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return True
    return model.training and not norm.training


def plain_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the ``state_dict`` with parametrized weights as plain ones, by their own names."""
    state = model.state_dict()
    for path, module in model.named_modules():
        if isinstance(module, ParametrizationList):
            owner, name = path.split(".parametrizations.")
            for inner in module.state_dict():
                del state[f"{path}.{inner}"]
            state[f"{owner}.{name}"] = module().detach()
    return state


class WeightAverage:
    """Exponential moving average of parameters and floating buffers; integer buffers are copied."""

    def __init__(
        self,
        decay: float,  # limit of the decay, in [0, 1)
    ) -> None:
        self._decay = decay
        self._updates = 0
        self.state: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Add the current weights of a module to the average."""
        current = module.state_dict()
        if not self.state:
            self.state = {name: value.clone() for name, value in current.items()}
        self._updates += 1
        # after t steps about t / 10 of them count
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        for name, value in current.items():
            self.state[name] = self.state[name].to(value.device)  # a resumed one is on the CPU
            if value.is_floating_point():
                self.state[name].lerp_(value, 1 - decay)
            else:
                self.state[name].copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for ``load_state_dict``."""
        return {"updates": self._updates, "state": self.state}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a saved average."""
        self._updates = int(saved["updates"])
        self.state = {name: value.clone() for name, value in saved["state"].items()}


class Optimization(L.LightningModule):
    """Lightning module of a plan; needs ``reload_dataloaders_every_n_epochs=1``."""

    def __init__(
        self,
        plan: FitPlan,
        resumed: dict[str, Any] | None = None,  # an earlier `training_state`
    ) -> None:
        super().__init__()
        self.model, self.objective = plan.model, plan.objective
        self.first_epoch = self.first_step = 0
        self.elapsed: Callable[[], float] = float  # seconds of training so far
        self._config, self._source, self._resumed = plan.config, plan.train, resumed
        self._steps_per_epoch = plan.steps_per_epoch
        decay = plan.config.recipe.ema_decay
        self.average = WeightAverage(decay) if decay else None
        if resumed is not None:
            self.first_epoch, self.first_step = int(resumed["epochs"]), resumed.get("step", 0)
            self.model.load_state_dict(resumed["weights"])
        self._tally = torch.zeros(3, dtype=torch.float64)  # of loss, measure, samples that count

    @property
    def epoch(self) -> int:
        """Number of the current epoch in the whole run."""
        return self.first_epoch + int(self.current_epoch)

    def step_in_epoch(self, batch_idx: int) -> int:
        """Return the number of a step in its epoch, steps of earlier sessions included."""
        return batch_idx + (self.first_step if self.current_epoch == 0 else 0)

    def train_dataloader(self) -> DataLoader[AnyBatch]:
        """Return the batches of the trainer's current epoch."""
        batches = EpochBatches(
            self._source,
            self._config.recipe.batch_size,
            seed=self._config.seed,
            epoch=self.epoch,
            first_step=self.step_in_epoch(0),
            process=self.trainer.global_rank,
            num_processes=self.trainer.world_size,
        )
        # No worker processes: assembling a batch in memory takes about a millisecond.
        return DataLoader(batches, batch_size=None)

    def on_train_epoch_start(self) -> None:
        """Reset the tally, or restore that of an earlier session."""
        self._tally = torch.zeros(3, dtype=torch.float64)
        if self._resumed is not None and self.step_in_epoch(0) > 0 and self.global_rank == 0:
            self._tally = self._resumed["tally"].double()

    def training_step(self, batch: AnyBatch, batch_idx: int) -> Tensor:
        """Return the loss of this process's share of a batch."""
        # A random stream per step makes dropout and resuming exact.
        step = self.step_in_epoch(batch_idx)
        enter_stream(self._config.seed, "step", self.epoch, step, self.global_rank)
        loss, measure = sums_of_parts(self.objective, self.model, batch)
        counted, total = self._counted(batch)
        seen = torch.full_like(loss, counted)
        # in double precision sums do not depend on where sessions end
        sums = torch.stack([x.detach().double() for x in (loss, measure, seen)])
        self._tally = self._tally.to(loss.device) + sums
        # Gradients are averaged over processes: with this factor they are those of the mean over
        # all counted samples of the batch, even if shares differ in size.
        return loss * (self.trainer.world_size / max(total, 1))

    def _counted(self, batch: AnyBatch) -> tuple[int, int]:
        """Return the number of counted samples in this process's share and in the step."""
        parts = [self.objective.counted(part) for part in batch.parts]
        counts = [number for number in parts if number is not None]
        if len(counts) < len(parts):
            return len(batch.labels), batch.total
        own, total = sum(counts), torch.tensor(sum(counts), device=self.device)
        if self.trainer.world_size > 1:
            total = self.trainer.strategy.reduce(total, reduce_op="sum")
        return own, int(total)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Update the weights, then their average, so that callbacks see the same step of both."""
        super().optimizer_step(*args, **kwargs)
        if self.average is not None:
            self.average.update(self.model)

    def configure_optimizers(self) -> Any:
        """Build optimizer, schedule and average, or restore them from a resumed run."""
        recipe = self._config.recipe
        optimizer, schedule = build_optimizer(
            self.model.parameters(), recipe, self._steps_per_epoch, lambda: self.elapsed()
        )
        if self._resumed is not None:
            # Updated in place, and possibly in memory shared with other processes.
            resumed = copy.deepcopy(self._resumed)
            optimizer.load_state_dict(resumed["optimizer"])
            if schedule is not None:
                schedule.load_state_dict(resumed["schedule"])
            if self.average is not None:
                self.average.load_state_dict(resumed["average"])
        if schedule is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def tally(
        self,
        over_processes: bool = False,  # sum over all processes, which must all call
    ) -> tuple[float, float]:
        """Return mean loss and measure of the epoch so far."""
        sums = self._total() if over_processes else self._tally
        loss, measure, seen = sums.tolist()
        return loss / max(seen, 1), measure / max(seen, 1)

    def _total(self) -> Tensor:
        # a copy: the sum over processes is written where the summands are
        return self.trainer.strategy.reduce(self._tally.clone(), reduce_op="sum")

    def evaluated_model(
        self,
        is_due: bool = False,  # whether it is evaluated, with the statistics of the recipe
    ) -> nn.Module:
        """Return the model to evaluate and save: the weight average if there is one."""
        is_estimated = is_due and self._config.recipe.update_bn and tracking_norms(self.model)
        if self.average is None and not is_estimated:
            return self.model
        model = copy.deepcopy(self.model)
        if self.average is not None:
            model.load_state_dict(self.average.state)
        if is_estimated:
            enter_stream(self._config.seed, "update_bn", self.epoch)
            update_bn(model, self._shuffled(), self.objective.sums)
        return model

    def _shuffled(self) -> Iterator[LabelledBatch]:
        """Yield all samples without noise, in an order that no training epoch has."""
        # Shuffled, because batches of a single class bias the statistics; whole batches, because
        # those of a share depend on the number of processes.
        recipe, seed = self._config.recipe, self._config.seed
        batches = EpochBatches(
            self._source, recipe.batch_size, seed=seed, epoch=recipe.epochs, noise=False
        )
        steps = (batches[step] for step in range(len(batches)))
        return (part.to(self.device) for batch in steps for part in batch.parts)

    def training_state(
        self,
        step: int = 0,  # steps done in an incomplete epoch, else 0
    ) -> dict[str, Any]:
        """Return the state that another process needs to continue; all processes must call."""
        optimizer, schedule = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        if isinstance(optimizer, list) or isinstance(schedule, list):
            raise RuntimeError("a run has one optimizer and at most one schedule")
        return {
            "epochs": self.epoch + (0 if step else 1),
            "step": step,
            "threads": torch.get_num_threads(),
            "tally": self._total().cpu(),
            "weights": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": None if schedule is None else schedule.state_dict(),
        }
