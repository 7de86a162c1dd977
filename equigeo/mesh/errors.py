"""Error for mesh files that cannot be loaded."""


class MeshError(ValueError):
    """A mesh or mesh file that cannot be used; the message names the cause and the remedy.

    Examples
    --------
    >>> from equigeo.mesh import load_mesh
    >>> try:
    ...     load_mesh("no_such_file.obj")
    ... except MeshError as error:
    ...     print("no_such_file.obj" in str(error))
    True
    """
