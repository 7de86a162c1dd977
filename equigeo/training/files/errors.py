"""Errors of training runs and their files."""


class CheckpointError(ValueError):
    """Unusable checkpoint; the message names the file, the cause and the remedy.

    Examples
    --------
    >>> from equigeo.training import Checkpoint
    >>> try:
    ...     Checkpoint.load("no_such_file.ckpt")
    ... except CheckpointError as error:
    ...     print(error)
    no_such_file.ckpt: no such file; pass the model.ckpt of a training run
    """


class OutputFolderError(ValueError):
    """Output folder that cannot take a run; the message names it, the cause and the remedy.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from equigeo.tasks.tsp import TourConfig
    >>> from equigeo.training.files.run_folder import RunFolder
    >>> with tempfile.NamedTemporaryFile() as file:  # no folder can be made below a file
    ...     try:
    ...         RunFolder(Path(file.name) / "run", TourConfig).check(TourConfig())
    ...     except OutputFolderError as error:
    ...         print(str(error).endswith("is not a folder); choose another --output"))
    True
    """
