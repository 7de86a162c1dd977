"""Messages of neighbours: one module per product of feature and direction.

All are called as ``messages(h, edge)``, return sums over neighbours, and carry ``irreps_out``,
 terms of the same multiplicity as the features.
"""
