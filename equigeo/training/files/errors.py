"""The errors of training runs and their files."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file, the cause and the remedy."""


class OutputFolderError(ValueError):
    """An output folder that cannot take a run; the message names it, the cause and the remedy."""
