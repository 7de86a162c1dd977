"""Lightning run of a plan, with callbacks that save it, log its history and show progress."""

from __future__ import annotations

import csv
import io
import math
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._core.files import replace_file
from equigeo.training.config import RunConfig
from equigeo.training.loop.module import (
    L,
    Optimization,
    plain_state,
    quiet_lightning,
    silence_lightning,
)
from equigeo.training.objective import FitPlan
from equigeo.training.process import TERMINATED, count_gpus
from equigeo.training.run_folder import RunRecord


def fit(
    plan: FitPlan,
    record: RunRecord,
    resumed: dict[str, Any] | None = None,  # the ``training`` of a checkpoint
    *,
    progress: bool = False,
    callbacks: Sequence[L.Callback] = (),
) -> None:
    """Run the remaining epochs, unless a callback stops the session."""
    # With several devices, each process is a fresh interpreter with a copy of the samples and takes
    # its share of every batch. Gradients are averaged; statistics of norms are per process.
    # Nodes run the same command with folders of their own, in which all end with one checkpoint.
    config = plan.config
    if not plan.model.training:  # as loaded from a checkpoint
        plan.model.train()
    module = Optimization(plan, resumed)
    recorder = EpochRecorder(record, plan)
    module.elapsed = recorder.elapsed
    strategy: Any = "auto"
    # Each node starts its own processes, also where a scheduler started that of the node.
    environments: Any = L.fabric.plugins.environments
    plugins = [environments.LightningEnvironment()] if config.nodes > 1 else None
    if config.processes > 1:
        unused = not plan.uses_all_parameters
        strategy = _QuietProcesses(start_method="spawn", find_unused_parameters=unused)
    bar = [TrainingProgress(config, plan.steps_per_epoch)] if progress else []
    with quiet_lightning(), tempfile.TemporaryDirectory() as scratch:
        trainer = L.Trainer(
            accelerator="auto" if count_gpus() else "cpu",
            devices=config.devices,
            num_nodes=config.nodes,
            plugins=plugins,
            strategy=strategy,
            max_epochs=config.recipe.epochs - module.first_epoch,
            gradient_clip_val=config.recipe.clip_norm or None,
            callbacks=[*bar, *callbacks, recorder],
            logger=False,
            enable_checkpointing=False,  # the recorder writes this library's own format
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,  # batches are divided by EpochBatches
            reload_dataloaders_every_n_epochs=1,
            num_sanity_val_steps=0,
            default_root_dir=scratch,
        )
        with _interruptible(trainer):
            trainer.fit(module)


class _QuietProcesses(L.pytorch.strategies.DDPStrategy):
    """Launcher with processes in which Lightning is as quiet as in the parent."""

    def setup_environment(self) -> None:
        silence_lightning()
        super().setup_environment()


@contextmanager
def _interruptible(trainer: L.Trainer) -> Iterator[None]:
    """Convert interruptions of Lightning to standard exceptions and kill child processes."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except BaseException as error:
        # Killing is safe: every file is written atomically.
        for process in getattr(trainer.strategy.launcher, "procs", ()):
            process.kill()
        # Lightning exits after Ctrl-C and disables it, and exits with status 0 after SIGTERM.
        if isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from None
        if isinstance(error, SystemExit) and trainer.received_sigterm:
            raise SystemExit(TERMINATED) from None
        raise


SAVE_SECONDS = 300.0
ASKED = 20  # steps between broadcasts of the decision to save
LINE_SECONDS = 60.0  # between lines of progress without a terminal
clock = time.perf_counter  # tests replace it
_NO_MEASURES = ("epoch", "threads")  # entries of the history that loggers skip

Tqdm = L.pytorch.callbacks.progress.tqdm_progress.Tqdm


class EpochRecorder(L.Callback):
    """Callback that saves checkpoint and history after every epoch and every five minutes."""

    def __init__(self, record: RunRecord, plan: FitPlan) -> None:
        self._record, self._config, self._evaluate = record, plan.config, plan.evaluate
        self._novelty = plan.novelty
        self._started = self._saved = 0.0
        self._unfinished = self._is_over = False

    def elapsed(self) -> float:
        """Return seconds of training so far, with earlier sessions and without evaluations."""
        if not self._started:
            return self._record.elapsed()
        earlier = self._record.elapsed() - self._record.seconds
        return earlier + clock() - self._started

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        """Send missing lines to loggers, and warn if the number of threads changed."""
        if trainer.is_global_zero:
            catch_up(self._record, trainer.callbacks)  # type: ignore[attr-defined]
        earlier = {line["threads"] for line in self._record.history if line.get("threads")}
        threads = torch.get_num_threads()
        if trainer.is_global_zero and earlier - {threads}:
            warnings.warn(
                f"this run was trained with {sorted(earlier)} threads and is resumed with "
                f"{threads}: its weights will not be those of an uninterrupted run to the bit",
                stacklevel=2,
            )

    def on_train_epoch_start(self, trainer: L.Trainer, module: Any) -> None:
        """Start the clock."""
        self._saved = clock()
        self._started = self._saved - self._record.seconds

    def on_train_batch_end(
        self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any,
        batch_idx: int,
    ) -> None:  # fmt: skip
        """Save within an epoch if it is time or if another callback ends the session."""
        # A run with a time limit ends with an incomplete epoch.
        minutes = self._config.recipe.minutes
        if minutes and self.elapsed() >= 60 * minutes:
            trainer.should_stop = self._is_over = True
        if trainer.is_last_batch or self._is_over:
            return
        self._unfinished = trainer.should_stop
        now, step = clock(), module.step_in_epoch(batch_idx)
        if self._is_due(trainer, step, now) or self._unfinished:
            self._numbers(module)
            training = self._training(module, step + 1)
            self._saved, self._record.seconds = now, now - self._started
            self._save(trainer, module.evaluated_model(), training)

    def _is_due(self, trainer: L.Trainer, step: int, now: float) -> bool:
        """Return whether it is time to save; occasionally the first process decides for all."""
        is_due = now - self._saved >= SAVE_SECONDS
        if trainer.world_size == 1:
            return is_due
        return step % ASKED == 0 and bool(trainer.strategy.broadcast(is_due))

    def on_train_epoch_end(self, trainer: L.Trainer, module: Any) -> None:
        """Append a line to the history, write both files and call the loggers."""
        if self._unfinished:
            return
        optimization: Optimization = module
        loss, measure = self._numbers(optimization)
        training = self._training(optimization)
        every = self._config.evaluate_every
        is_last = self._is_over or optimization.epoch + 1 == self._config.recipe.epochs
        is_due = is_last or (every > 0 and (optimization.epoch + 1) % every == 0)
        model = optimization.evaluated_model(is_due)
        self._check_tensors(optimization, {"weights": model.state_dict()})
        seconds = clock() - self._started
        objective = optimization.objective
        line = {
            "epoch": optimization.epoch + 1,
            "loss": loss,
            f"train_{objective.measure}": measure,
            objective.evaluated: None,
            "seconds": seconds,
            "threads": torch.get_num_threads(),
        }
        if trainer.local_rank == 0 and is_due:
            line |= self._evaluate(model)
        self._check_numbers(optimization, line)
        self._record.history = [*self._record.history, line]
        self._record.seconds = 0.0
        self._started = 0.0
        self._save(trainer, model, training, is_last=is_last)
        callbacks = trainer.callbacks  # type: ignore[attr-defined]  # set by another object
        for callback in callbacks if trainer.is_global_zero else ():
            if isinstance(callback, HistoryLogger):
                callback.on_recorded(self._record)

    def _numbers(self, module: Optimization) -> tuple[float, float]:
        """Return loss and measure of the epoch so far; raise if a value to save is not finite."""
        loss, measure = module.tally(over_processes=True)
        self._check_numbers(module, {"loss": loss, module.objective.measure: measure})
        return loss, measure

    def _training(self, module: Optimization, step: int = 0) -> dict[str, Any]:
        """Return the finite state for resuming, or raise; all processes must call."""
        training = module.training_state(step)
        self._check_tensors(module, training)
        return training

    def _check_numbers(self, module: Optimization, numbers: Mapping[str, float | None]) -> None:
        for name, value in numbers.items():
            if value is not None and not math.isfinite(value):
                raise self._diverged(f"the {name} of epoch {module.epoch + 1} is {value}")

    def _check_tensors(self, module: Optimization, state: Mapping[str, Any]) -> None:
        for name, value in _tensors(state):
            if not bool(value.isfinite().all()):
                raise self._diverged(
                    f"{name} after epoch {module.epoch + 1} has numbers that are not finite"
                )

    def _diverged(self, what: str) -> ValueError:
        kept = "the last checkpoint is kept, " * self._record.folder.checkpoint.exists()
        rate = self._config.recipe.learning_rate
        return ValueError(f"{what}: training diverged; {kept}lower the learning rate ({rate})")

    def _save(
        self,
        trainer: L.Trainer,
        evaluated: nn.Module,
        training: dict[str, Any],
        *,
        is_last: bool = False,
    ) -> None:
        if trainer.local_rank == 0:  # each node has a folder of its own
            # the finished model reads the training samples
            novelty = self._novelty(evaluated) if is_last and self._novelty else None
            state = {} if novelty is None else novelty.state_dict()
            self._record.save(plain_state(evaluated), training, state)


def _tensors(state: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors of nested dictionaries with their paths."""
    for name, value in state.items():
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, Mapping):
            yield from _tensors(value, f"{prefix}{name}.")


class HistoryLogger(L.Callback):
    """Forward every finished epoch, after it is saved, to a Lightning logger or to ``log.csv``."""

    _logger: Any = None
    _is_table = False

    def __init__(self, logger: Any = None) -> None:  # not opened yet; None for the table
        self._logger, self._is_table = logger, logger is None
        self._is_described = False

    def on_recorded(self, record: RunRecord) -> None:
        """Forward the last line of the history, in the first process; the table has all lines."""
        if self._logger is None:
            names = dict.fromkeys(name for line in record.history for name in line)
            text = io.StringIO()
            table = csv.DictWriter(text, list(names), lineterminator="\n")
            table.writeheader()
            table.writerows(record.history)  # None is an empty cell
            replace_file(record.folder.log, text.getvalue())
            return
        if not self._is_described:
            self._logger.log_hyperparams(record.description["train"])
            self._is_described = True
        line = record.history[-1]
        measured = {k: v for k, v in line.items() if v is not None and k not in _NO_MEASURES}
        self._logger.log_metrics(measured, step=line["epoch"])
        self._logger.save()  # a run may be killed at any moment

    def close(self) -> None:
        """Close the logger, in the first process."""
        if self._logger is not None:
            self._logger.finalize("success")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Close the logger."""
        if self._logger is not None and trainer.is_global_zero:
            self.close()


def catch_up(
    record: RunRecord,
    callbacks: Iterable[L.Callback],
    *,
    is_over: bool = False,  # also close them, as no training follows
) -> None:
    """Forward the last epoch of a resumed run to the loggers that did not get it."""
    for callback in callbacks if record.history else ():
        if isinstance(callback, HistoryLogger):
            if record.was_behind or callback._is_table:
                callback.on_recorded(record)
            if is_over and record.was_behind:
                callback.close()


class TrainingProgress(L.Callback):
    """Progress bar of an ``Optimization`` with loss and measure, or lines without a terminal."""

    def __init__(self, config: RunConfig, steps_per_epoch: int) -> None:
        self._epochs, self._steps = config.recipe.epochs, steps_per_epoch
        self._seconds = 60 * config.recipe.minutes
        self._bar: Tqdm | None = None
        self._written = 0.0

    def on_train_start(self, trainer: L.Trainer, module: Any) -> None:
        """Open the bar at the position of earlier sessions."""
        self._written = time.perf_counter()
        if not trainer.is_global_zero or not sys.stderr.isatty():
            return
        size = shutil.get_terminal_size()
        self._bar = Tqdm(
            total=self._seconds or self._epochs * self._steps,
            initial=module.elapsed()
            if self._seconds
            else module.epoch * self._steps + module.step_in_epoch(0),
            mininterval=0.2,
            ncols=size.columns or 80,  # terminals of containers may have size 0
            nrows=size.lines or 24,
            bar_format="{desc} {bar} {percentage:3.0f}% [{elapsed}<{remaining}{postfix}]",
        )

    def on_train_batch_end(
        self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Advance the bar; the values are read only when it is redrawn."""
        if self._bar is None:
            now = time.perf_counter()
            if trainer.is_global_zero and now - self._written >= LINE_SECONDS:
                self._written = now
                step = module.step_in_epoch(0) + batch_idx + 1
                sys.stderr.write(
                    f"{self._name(module)}, step {step}/{self._steps}, {_numbers(module)}\n"
                )
            return
        more = 1.0
        if self._seconds:
            more = max(0.0, min(module.elapsed(), self._seconds) - self._bar.n)
        if self._bar.update(more) or batch_idx == 0:
            self._bar.set_description_str(self._name(module), False)
            self._bar.set_postfix_str(_numbers(module), refresh=False)

    def on_train_epoch_end(self, trainer: L.Trainer, module: Any) -> None:
        """Write a line if there is no bar."""
        if self._bar is not None:
            self._bar.set_postfix_str(_numbers(module))
        elif trainer.is_global_zero and trainer.is_last_batch:
            sys.stderr.write(f"{self._name(module)}, {_numbers(module)}\n")

    def _name(self, module: Any) -> str:
        """Return the number of the epoch, and the total unless the run has a time limit."""
        epoch = f"epoch {module.epoch + 1}"
        return epoch if self._seconds else f"{epoch}/{self._epochs}"

    def on_train_end(self, trainer: L.Trainer, module: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        """Close the bar, so that the message starts on its own line."""
        self.on_train_end(trainer, module)


def _numbers(module: Any) -> str:
    loss, measure = module.tally()
    objective = module.objective
    return f"loss {loss:.3f}, {objective.measure} {measure:{objective.form}}"
