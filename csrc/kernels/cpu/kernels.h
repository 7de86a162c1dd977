// Kernels that take the arguments of their ops as they are.
#pragma once

#include "args/axis_flags.h"
#include "args/principal_axes.h"
#include "args/relu_batch_norm.h"
#include "args/segments.h"
#include "args/spherical_harmonics.h"
#include "args/symmetric_contraction.h"
#include "args/symmetric_eigen.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(AxisFlags, axis_flags_clouds);
EQUIGEO_DECLARE_KERNELS(PrincipalAxes, principal_axes_clouds);
EQUIGEO_DECLARE_KERNELS(PrincipalAxesBackward, principal_axes_backward_clouds);
EQUIGEO_DECLARE_KERNELS(SymmetricEigen, symmetric_eigen_rows);

EQUIGEO_DECLARE_KERNELS(SphericalHarmonics, spherical_harmonics_rows);
EQUIGEO_DECLARE_KERNELS(SphericalHarmonicsBackward, spherical_harmonics_backward_rows);
EQUIGEO_DECLARE_KERNELS(SphericalHarmonicsDoubleBackward, spherical_harmonics_double_backward_rows);

EQUIGEO_DECLARE_KERNELS(SymmetricContraction, symmetric_contraction_rows);
// Over runs, then over the weights of all sets.
EQUIGEO_DECLARE_KERNELS(SymmetricContractionGradients, symmetric_contraction_runs);
EQUIGEO_DECLARE_KERNELS(SymmetricContractionGradients, symmetric_contraction_sums);

// Over parts of the rows, see RectifiedSum::rows_of_part.
EQUIGEO_DECLARE_KERNELS(RectifiedSum, rectified_sum_parts);
EQUIGEO_DECLARE_KERNELS(ReluBatchNormBackward, relu_batch_norm_backward_parts);
// Over rows.
EQUIGEO_DECLARE_KERNELS(ReluBatchNorm, relu_batch_norm_rows);
EQUIGEO_DECLARE_KERNELS(ReluBatchNormBackward, relu_batch_norm_backward_rows);

EQUIGEO_DECLARE_KERNELS(GatherSum, gather_sum_rows);
EQUIGEO_DECLARE_KERNELS(SegmentAttention, segment_attention_rows);
EQUIGEO_DECLARE_KERNELS(SegmentAttentionBackward, segment_attention_backward_targets);
EQUIGEO_DECLARE_KERNELS(SegmentAttentionBackward, segment_attention_backward_sources);

EQUIGEO_DECLARE_KERNELS(AttentionConv, attention_conv_rows);
// Over parts of the targets, see AttentionConvBackward::rows_of_part.
EQUIGEO_DECLARE_KERNELS(AttentionConvBackward, attention_conv_backward_parts);
EQUIGEO_DECLARE_KERNELS(AttentionConvBackward, attention_conv_backward_sources);

// Targets whose weights of attention are computed at a time, so that packing the matrices is a
// small part of the work.
constexpr int64_t kAttendedRows = 256;

}  // namespace equigeo
