// Running ops on the CPU: checks of what the host can read, the table in the form of the kernels,
// and how the work is cut.
#pragma once

#include "kernels/cpu/kernels.h"
#include "register/cpu/run_block_linear.h"
#include "register/cpu/run_channelwise.h"
#include "register/cpu/run_contraction.h"
#include "register/cpu/run_copywise.h"
#include "register/cpu/run_fully_connected.h"
#include "register/cpu/run_grid_product.h"
#include "register/cpu/run_so2_conv.h"

namespace equigeo {

template <class T>
void run(const GatherSum<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.segments, op.edges);
  const double work = 1.0 * (op.edges + op.segments) * op.channels;
  run_rows(EQUIGEO_SELECT_KERNELS(gather_sum_rows), op, op.segments, work);
}

template <class T>
void run(const SegmentAttention<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.targets, op.edges);
  const double work = 1.0 * (op.edges + op.targets) * op.heads * (op.channels + 8);
  run_rows(EQUIGEO_SELECT_KERNELS(segment_attention_rows), op, op.targets, work);
}

template <class T>
void run(const SegmentAttentionBackward<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.targets, op.edges);
  check_offsets("back_ptr", op.back_ptr, op.sources, op.edges);
  const double work = 1.0 * op.heads * (op.channels + 8);
  run_rows(
      EQUIGEO_SELECT_KERNELS(segment_attention_backward_targets), op, op.targets,
      (op.edges + op.targets) * work);
  run_rows(
      EQUIGEO_SELECT_KERNELS(segment_attention_backward_sources), op, op.sources,
      (op.edges + op.sources) * work);
}

// Spherical harmonics: multiply-adds of all points, and points in a chunk at least, a multiple of
// every register.
template <class Op>
double harmonics_work(const Op& op) {
  const double size = op.table.lmax + 1;
  return op.points * (4 * size * size + 16);
}

constexpr int64_t kLeastPoints = 256;

template <class T>
void run(const SphericalHarmonics<T>& op, const Tensor&) {
  run_rows(
      EQUIGEO_SELECT_KERNELS(spherical_harmonics_rows), op, op.points, harmonics_work(op),
      kLeastPoints);
}

template <class T>
void run(const SphericalHarmonicsBackward<T>& op, const Tensor&) {
  run_rows(
      EQUIGEO_SELECT_KERNELS(spherical_harmonics_backward_rows), op, op.points,
      2 * harmonics_work(op), kLeastPoints);
}

template <class T>
void run(const SphericalHarmonicsDoubleBackward<T>& op, const Tensor&) {
  run_rows(
      EQUIGEO_SELECT_KERNELS(spherical_harmonics_double_backward_rows), op, op.points,
      4 * harmonics_work(op), kLeastPoints);
}

template <class T>
void run(const SymmetricEigen<T>& op, const Tensor&) {
  run_rows(EQUIGEO_SELECT_KERNELS(symmetric_eigen_rows), op, op.count, 256.0 * op.count);
}

template <class T>
void run(const PrincipalAxes<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.clouds, op.points);
  const double work = 16.0 * op.points * op.dim + 256.0 * op.clouds;
  run_rows(EQUIGEO_SELECT_KERNELS(principal_axes_clouds), op, op.clouds, work);
}

template <class T>
void run(const PrincipalAxesBackward<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.clouds, op.points);
  const double work = 16.0 * op.points * op.dim + 256.0 * op.clouds;
  run_rows(EQUIGEO_SELECT_KERNELS(principal_axes_backward_clouds), op, op.clouds, work);
}

template <class T>
void run(const AxisFlags<T>& op, const Tensor&) {
  if (op.points >= 0) {
    check_offsets("ptr", op.ptr, op.clouds, op.points);
  }
  run_rows(EQUIGEO_SELECT_KERNELS(axis_flags_clouds), op, op.clouds, 32.0 * op.clouds * op.dim);
}

}  // namespace equigeo
