// Running batch norms of rectified sums on the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "register/cpu/run_rows.h"

namespace equigeo {

// Rows whose statistics are taken together, in single precision where features are: by the problem
// alone, so that results have the same bits for any number of threads.
constexpr int64_t kRowsOfPart = 128;

// Work of a pass over all elements, by the time of multiply-adds: whole registers go by at once,
// and where there are few, another thread would not be awake in time.
template <class T>
double batch_norm_work(const RectifiedSum<T>& sum) {
  return 0.25 * sum.rows * sum.channels;
}

// Mean, variance and what results are made with, for every channel.
template <class T>
struct BatchStatistics {
  RectifiedSum<T> sum;
  std::vector<double> means, squares;  // of the parts
  std::vector<T> mean, variance, inverse, scale, shift;

  BatchStatistics(
      const T* x,
      const T* added,
      int64_t rows,
      int64_t channels,
      const T* weight,
      const T* bias,
      double eps)
      : sum{x, added, rows, channels, kRowsOfPart, nullptr, nullptr},
        means(parts() * channels),
        squares(parts() * channels),
        mean(channels),
        variance(channels),
        inverse(channels),
        scale(channels),
        shift(channels) {
    sum.means = means.data();
    sum.squares = squares.data();
    run_rows(EQUIGEO_SELECT_KERNELS(rectified_sum_parts), sum, parts(), 2 * batch_norm_work(sum));
    for (int64_t c = 0; c < channels; ++c) {
      unite(c);
      const double root = 1 / std::sqrt(static_cast<double>(variance[c]) + eps);
      inverse[c] = static_cast<T>(root);
      scale[c] = static_cast<T>(weight[c] * root);
      shift[c] = static_cast<T>(bias[c] - weight[c] * root * mean[c]);
    }
  }
  BatchStatistics(const BatchStatistics&) = delete;
  BatchStatistics& operator=(const BatchStatistics&) = delete;

  int64_t parts() const { return (sum.rows + sum.rows_of_part - 1) / sum.rows_of_part; }

  ReluBatchNorm<T> forward(bool rectify, T* out) const {
    return {sum, scale.data(), shift.data(), rectify, out};
  }

 private:
  // Statistics of all parts from those of each, in their order: the mean first, so that nothing is
  // subtracted that is nearly equal.
  void unite(int64_t c) {
    double total = 0, square = 0;
    for (int64_t part = 0; part < parts(); ++part) {
      total += rows_of(part) * means[part * sum.channels + c];
    }
    const double center = total / sum.rows;
    for (int64_t part = 0; part < parts(); ++part) {
      const double away = means[part * sum.channels + c] - center;
      square += squares[part * sum.channels + c] + rows_of(part) * away * away;
    }
    mean[c] = static_cast<T>(center);
    variance[c] = static_cast<T>(square / sum.rows);
  }

  double rows_of(int64_t part) const {
    return std::min(sum.rows_of_part, sum.rows - part * sum.rows_of_part);
  }
};

template <class T>
void normalize_rows(const ReluBatchNorm<T>& op) {
  run_rows(EQUIGEO_SELECT_KERNELS(relu_batch_norm_rows), op, op.sum.rows, batch_norm_work(op.sum));
}

template <class T>
void differentiate_rows(
    const BatchStatistics<T>& found,
    const ReluBatchNorm<T>& forward,
    const T* grad_out,
    T* grad_x,
    T* grad_weight,
    T* grad_bias) {
  const int64_t parts = found.parts(), rows = found.sum.rows, channels = found.sum.channels;
  std::vector<double> sums(parts * channels), products(parts * channels);
  std::vector<T> to_mean(channels), to_square(channels);
  const ReluBatchNormBackward<T> op{
      forward,        grad_out,         found.mean.data(), found.inverse.data(),
      to_mean.data(), to_square.data(), sums.data(),       products.data(),
      grad_x};
  const double work = 2 * batch_norm_work(found.sum);
  run_rows(EQUIGEO_SELECT_KERNELS(relu_batch_norm_backward_parts), op, parts, work);
  for (int64_t c = 0; c < channels; ++c) {
    double total = 0, product = 0;
    for (int64_t part = 0; part < parts; ++part) {
      total += sums[part * channels + c];
      product += products[part * channels + c];
    }
    grad_bias[c] = static_cast<T>(total);
    grad_weight[c] = static_cast<T>(product);
    const double scale = found.scale[c];
    to_mean[c] = static_cast<T>(scale * total / rows);
    to_square[c] = static_cast<T>(scale * found.inverse[c] * product / rows);
  }
  run_rows(EQUIGEO_SELECT_KERNELS(relu_batch_norm_backward_rows), op, rows, work);
}

}  // namespace equigeo
