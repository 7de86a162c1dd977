"""What a neighbour sends: one module for each way of multiplying its feature and the direction.

All are called as ``messages(h, edges, harmonics, radial)``, return sums over neighbours, and carry
``irreps_out``, terms of the same multiplicity as the features.
"""
