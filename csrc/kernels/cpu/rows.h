// Rows of tensors in the type that kernels compute in.
#pragma once

#include "kernels/cpu/components.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/stream.h"
#include "math/bfloat16.h"

namespace equigeo {
namespace {

template <class S>
constexpr int64_t kCopies = sizeof(S) != sizeof(Compute<S>);

// Elements of scratch that a row of the tensor needs.
template <class S>
constexpr int64_t scratch_row(int64_t count) {
  return kCopies<S> ? count : 0;
}

// Single numbers of tensors.
template <class T>
inline void read_number(const T* from, T& to) {
  to = *from;
}
inline void read_number(const Bf16* from, float& to) { to = widen(*from); }
template <class T>
inline void write_number(T value, T* to) {
  *to = value;
}
inline void write_number(float value, Bf16* to) { *to = narrow(value); }

// A row to read: the tensor's own, or a copy in `scratch`. Null stays null.
inline const float* read_row(const float* row, int64_t, float*) { return row; }
inline const double* read_row(const double* row, int64_t, double*) { return row; }
inline const float* read_row(const Bf16* row, int64_t count, float* scratch) {
  if (row == nullptr) {
    return nullptr;
  }
  for (int64_t n = 0; n < count; ++n) {
    scratch[n] = widen(row[n]);
  }
  return scratch;
}

template <class S>
inline S* row_or_null(S* rows, int64_t row, int64_t dim) {
  return rows == nullptr ? nullptr : rows + row * dim;
}

// Rows of a tensor that are written one after the other: in place, in scratch memory where the
// tensor stores another type, or, if they are to be streamed, in scratch memory and then past the
// caches.
template <class S>
class RowWriter {
 public:
  using T = Compute<S>;

  static int64_t size(int64_t dim, bool stream = false) {
    return kCopies<S> || stream ? Scratch<T>::round_up(dim) : 0;
  }

  RowWriter(int64_t dim, bool stream, Scratch<T>& memory)
      : dim_(dim), buffer_(kCopies<S> || stream ? memory.take(dim) : nullptr) {}

  // Where to write the numbers of a row, which may be null.
  T* begin(S* row) {
    row_ = row;
    if constexpr (kCopies<S>) {
      return row == nullptr ? nullptr : buffer_;
    } else {
      return row == nullptr || buffer_ == nullptr ? row : buffer_;
    }
  }

  void finish() {
    if constexpr (kCopies<S>) {
      for (int64_t n = 0; n < dim_ && row_ != nullptr; ++n) {
        row_[n] = narrow(buffer_[n]);
      }
    } else if (row_ != nullptr && buffer_ != nullptr) {
      stream_row(buffer_, dim_, row_);
    }
  }

 private:
  int64_t dim_;
  T* buffer_;
  S* row_ = nullptr;
};

}  // namespace
}  // namespace equigeo
