"""Limits on mesh files; a file beyond one raises a ``MeshError`` that names the limit."""

from __future__ import annotations

from typing import Final

MAX_FILE_BYTES: Final = 2**31
"""Bytes of a file."""

MAX_CORNERS: Final = 2**16
"""Corners of one face; programs cut the caps of cylinders into a few thousand at most."""

MAX_NO_NUMBERS: Final = 2**16
"""Non-numeric coordinates of a text file; up to this number, faces that use them are dropped."""

MAX_PLY_HEADER: Final = 2**20
"""Bytes of the header of a PLY file, comments included."""

MAX_PLY_PROPERTIES: Final = 2**8
"""Elements and properties of the header of a PLY file; a list takes time for all before it."""

MAX_LINE: Final = 2**20
"""Bytes of a line of a text PLY file."""

MAX_SOLIDS: Final = 2**13
"""Solids of a text STL file."""

MAX_GLB_JSON: Final = 2**23
"""Bytes of the JSON description in a GLB file."""

MAX_NODES: Final = 2**15
"""Nodes of the scene of a GLB file."""

MAX_SCENE: Final = 2**25
"""Vertices and corners of all instances in a GLB scene; each part counts for at least 1,024."""
