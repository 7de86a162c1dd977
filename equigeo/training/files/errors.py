"""The errors of training runs and their files."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file, the cause and the remedy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from equigeo.training import Checkpoint
    >>> try:
    ...     Checkpoint.load(Path("no_such_file.ckpt"))
    ... except CheckpointError as error:
    ...     print("no_such_file.ckpt" in str(error))
    True
    """


class OutputFolderError(ValueError):
    """An output folder that cannot take a run; the message names it, the cause and the remedy."""
