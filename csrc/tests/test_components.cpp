// Segments between the layouts of tensors and of kernels, against plain loops.
#include "check.h"
#include "kernels/cpu/components.h"

namespace equigeo {
namespace {

constexpr int64_t kMuls[] = {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 40, 128};
constexpr int64_t kDims[] = {1, 2, 3, 4, 5, 6, 7, 9};

template <class T>
void all_sizes(const std::function<void(int64_t, int64_t, const std::vector<T>&)>& body) {
  for (const int64_t mul : kMuls) {
    for (const int64_t d : kDims) {
      body(mul, d, check::normal<T>(mul * d, static_cast<unsigned>(100 * mul + d)));
    }
  }
}

// A heap of its own size each, so that a sanitizer sees what is touched beside it.
template <class T>
bool splits(int64_t mul, int64_t d, const std::vector<T>& flat) {
  const int64_t stride = padded(mul);
  std::vector<T> columns(d * stride, T(7));
  split_components(flat.data(), mul, d, columns.data(), stride);
  bool right = true;
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t u = 0; u < stride; ++u) {
      right &= columns[i * stride + u] == (u < mul ? flat[u * d + i] : T(7));
    }
  }
  return right;
}

template <class T>
bool joins(int64_t mul, int64_t d, const std::vector<T>& flat) {
  const int64_t stride = padded(mul);
  std::vector<T> columns(d * stride, T(7)), joined(mul * d);
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t u = 0; u < mul; ++u) {
      columns[i * stride + u] = flat[u * d + i];
    }
  }
  join_components(columns.data(), stride, mul, d, joined.data());
  return joined == flat;
}

// What lies behind a segment belongs to the next one, which may be written already.
template <class T>
bool leaves_the_next(int64_t mul, int64_t d, const std::vector<T>& flat) {
  const int64_t stride = padded(mul);
  std::vector<T> columns(d * stride), row(flat);
  row.resize(mul * d + 16, T(7));
  split_components(flat.data(), mul, d, columns.data(), stride);
  join_components(columns.data(), stride, mul, d, row.data());
  bool left = true;
  for (size_t n = flat.size(); n < row.size(); ++n) {
    left &= row[n] == T(7);
  }
  return left;
}

const bool kSplit = check::add_for_floats("every channel becomes a column", [](auto zero) {
  using T = decltype(zero);
  all_sizes<T>([](int64_t mul, int64_t d, const std::vector<T>& flat) {
    check::holds(splits(mul, d, flat), "columns");
  });
});

const bool kJoin = check::add_for_floats("columns become channels again", [](auto zero) {
  using T = decltype(zero);
  all_sizes<T>([](int64_t mul, int64_t d, const std::vector<T>& flat) {
    check::holds(joins(mul, d, flat), "channels");
  });
});

const bool kNext = check::add_for_floats("nothing is written behind a segment", [](auto zero) {
  using T = decltype(zero);
  all_sizes<T>([](int64_t mul, int64_t d, const std::vector<T>& flat) {
    check::holds(leaves_the_next(mul, d, flat), "the next segment");
  });
});

}  // namespace
}  // namespace equigeo
