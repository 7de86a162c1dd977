"""Equivariant products of features: exact, weighted and comparable.

Every product is fixed by one number for each admissible triple of degrees, which multiplies the
same coupling tensor. Clebsch-Gordan products keep every path apart; Gaunt, curl, matrix and
vector-signal products add all paths of a degree up, and are cheaper for it.
"""

from equigeo.tensor_products.product import Product

__all__ = ["Product"]
