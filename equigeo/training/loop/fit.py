"""Lightning run of a plan."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from equigeo.training.loop.callbacks import EpochRecorder, TrainingProgress
from equigeo.training.loop.lightning import EpochDataModule, L, quiet_lightning, silence_lightning
from equigeo.training.loop.module import Optimization
from equigeo.training.plan import FitPlan
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
    config = plan.config
    if not plan.model.training:  # as loaded from a checkpoint
        plan.model.train()
    module = Optimization(plan.model, config, plan.objective, plan.steps_per_epoch, resumed)
    data = EpochDataModule(plan.train, config, module.first_epoch, module.first_step)
    recorder = EpochRecorder(record, plan)
    module.elapsed = recorder.elapsed
    strategy: Any = "auto"
    if config.devices > 1:
        unused = not plan.uses_all_parameters
        strategy = _QuietProcesses(start_method="spawn", find_unused_parameters=unused)
    bar = [TrainingProgress(config, plan.steps_per_epoch)] if progress else []
    with quiet_lightning(), tempfile.TemporaryDirectory() as scratch:
        trainer = L.Trainer(
            accelerator="auto" if count_gpus() else "cpu",
            devices=config.devices,
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
            trainer.fit(module, datamodule=data)


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
