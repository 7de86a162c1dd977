"""Operations on features on group samples: sums, pooling, norms, checks."""
