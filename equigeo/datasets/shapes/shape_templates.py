"""The table of articulated shapes: sixteen classes in the spirit of SHREC'11.

Rest positions hold limbs apart and joints in the middle of their range: the surface is made there
once, and posing only turns the joints.
"""

from __future__ import annotations

from equigeo.datasets.shapes.animal_templates import ANIMAL_TEMPLATES
from equigeo.datasets.shapes.object_templates import OBJECT_TEMPLATES

SHAPE_TEMPLATES = tuple(sorted(ANIMAL_TEMPLATES + OBJECT_TEMPLATES, key=lambda t: t.name))
