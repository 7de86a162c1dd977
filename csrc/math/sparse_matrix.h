// Sparse matrices whose rows of equal length stand side by side: loops over their terms then take
// the same number of turns many times in a row, which processors predict.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct SparseTerm {
  int32_t column;  // of the number that it multiplies
  T value;
};

struct SparseRow {
  int64_t out, stride;  // the sum of copy n goes to `out + n * stride`
  int64_t weight;       // and its weight, where paths have any, is at `weight + n`
};

// Rows of one length.
struct SparseRun {
  int32_t length, rows;
};

struct SparseBlock {
  int64_t run, runs, row, term;  // first run and their number, first row, first term
};

template <class T>
struct Sparse {
  const SparseRun* run;
  const SparseRow* row;
  const SparseTerm<T>* term;
};

}  // namespace equigeo
