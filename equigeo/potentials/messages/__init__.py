"""What a neighbour sends: one module for each way of multiplying its feature and the direction.

All are called as ``messages(h, edge)``, return sums over neighbours, and carry ``irreps_out``,
 terms of the same multiplicity as the features.
"""
