"""Progress of a run on the terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from equigeo.training.loop.lightning import L
from equigeo.training.run_config import RunConfig

LINE_SECONDS = 60.0

Tqdm = L.pytorch.callbacks.progress.tqdm_progress.Tqdm


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
            initial=self._done(module),
            mininterval=0.2,
            ncols=size.columns or 80,  # terminals of containers may have size 0
            nrows=size.lines or 24,
            bar_format="{desc} {bar} {percentage:3.0f}% [{elapsed}<{remaining}{postfix}]",
        )

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Advance the bar; the values are read only when it is redrawn."""
        if self._bar is None:
            self._write_line(trainer, module, batch_idx)
        elif self._bar.update(self._more(module)) or batch_idx == 0:
            self._bar.set_description_str(self._name(module), False)
            self._bar.set_postfix_str(_numbers(module), refresh=False)

    def _write_line(self, trainer: L.Trainer, module: Any, batch_idx: int) -> None:
        """Write a line within an epoch if it is time."""
        now = time.perf_counter()
        if trainer.is_global_zero and now - self._written >= LINE_SECONDS:
            self._written = now
            step = module.step_in_epoch(0) + batch_idx + 1
            sys.stderr.write(
                f"{self._name(module)}, step {step}/{self._steps}, {_numbers(module)}\n"
            )

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

    def _done(self, module: Any) -> float:
        """Return the steps, or seconds, before this session."""
        steps: int = module.epoch * self._steps + module.step_in_epoch(0)
        return float(module.elapsed()) if self._seconds else steps

    def _more(self, module: Any) -> float:
        """Return the increment of the bar per step."""
        if self._seconds and self._bar is not None:
            return max(0.0, min(module.elapsed(), self._seconds) - self._bar.n)
        return 1

    def on_train_end(self, trainer: L.Trainer, module: Any) -> None:
        """Close the bar."""
        self._close()

    def on_exception(self, trainer: L.Trainer, module: Any, exception: BaseException) -> None:
        """Close the bar, so that the message starts on its own line."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _numbers(module: Any) -> str:
    loss, measure = module.tally()
    objective = module.objective
    return f"loss {loss:.3f}, {objective.measure} {measure:{objective.form}}"
