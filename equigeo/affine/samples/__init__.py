"""Operations on features on group samples of any kind: sums, pooling, norms, checks."""
