"""The error of unusable mesh files."""


class MeshError(ValueError):
    """A mesh file that cannot be used; the message names the file, the cause and the remedy."""
