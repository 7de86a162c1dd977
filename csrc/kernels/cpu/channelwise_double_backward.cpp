// Compiled once per instruction set: no torch, no C++ standard headers. Products and convolutions
// together, since most of the work of the compiler is in what they share.
#include "kernels/cpu/conv_double_backward.h"
#include "kernels/cpu/product_double_backward.h"

namespace equigeo {
namespace {

template <class S>
int product_double_backward_rows(
    const PlannedChannelwiseProductDoubleBackward<S>& op, int64_t begin, int64_t end) {
  using Pass = ProductDoubleBackward<S>;
  return run_blocks<Pass>(op, begin, end, Pass::kEdges);
}

}  // namespace

const Kernels<PlannedChannelwiseProductDoubleBackward> EQUIGEO_FOR_ISA(
    channelwise_product_double_backward_rows) = {
    product_double_backward_rows<float>, product_double_backward_rows<double>,
    product_double_backward_rows<Bf16>};
const Kernels<PlannedChannelwiseConvDoubleBackward> EQUIGEO_FOR_ISA(
    channelwise_conv_double_backward_targets) = {
    conv_double_backward_targets<float>, conv_double_backward_targets<double>,
    conv_double_backward_targets<Bf16>};
const Kernels<PlannedChannelwiseConvDoubleBackward> EQUIGEO_FOR_ISA(
    channelwise_conv_double_backward_sources) = {
    conv_double_backward_sources<float>, conv_double_backward_sources<double>,
    conv_double_backward_sources<Bf16>};

}  // namespace equigeo
