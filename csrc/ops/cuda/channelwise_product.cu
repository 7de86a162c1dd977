#include "ops/cuda/channelwise_product.h"

#include "ops/cuda/differentiate_products.h"
#include "ops/cuda/sum_products.h"

namespace equigeo {

template <class S>
int64_t scratch_size(const ChannelwiseProduct<S>& op) {
  Carver memory(nullptr);
  cut_plan(op.paths, Side::kOut, memory);
  return memory.used();
}

template <class S>
int64_t scratch_size(const ChannelwiseProductBackward<S>& op) {
  Carver memory(nullptr);
  cut_plan(op.paths, Side::kFirst, memory);
  return memory.used();
}

template <class S>
const char* launch(const ChannelwiseProduct<S>& op, void* scratch, void* stream) {
  Carver memory(scratch);
  SumProducts<S> sums{};
  sums.plan = cut_plan(op.paths, Side::kOut, memory);
  sums.edges = own_rows(op.rows);
  sums.x = op.x;
  sums.y = op.y;
  sums.weight = op.weight;
  sums.out = op.out;
  sums.x_ir_mul = op.paths.ir_mul;
  const char* error = make_plan(op.paths, sums.plan, stream);
  return error == nullptr ? sum_products(sums, stream) : error;
}

template <class S>
const char* launch(const ChannelwiseProductBackward<S>& op, void* scratch, void* stream) {
  Carver memory(scratch);
  DifferentiateProducts<S> gradients{};
  gradients.plan = cut_plan(op.paths, Side::kFirst, memory);
  gradients.edges = own_rows(op.rows);
  gradients.grad = op.grad;
  gradients.x = op.x;
  gradients.y = op.y;
  gradients.weight = op.weight;
  gradients.grad_x = op.grad_x;
  gradients.grad_y = op.grad_y;
  gradients.grad_weight = op.grad_weight;
  gradients.in_ir_mul = op.paths.ir_mul;
  const char* error = make_plan(op.paths, gradients.plan, stream);
  return error == nullptr ? differentiate_products(gradients, stream) : error;
}

#define EQUIGEO_INSTANTIATE(S)                                             \
  template int64_t scratch_size(const ChannelwiseProduct<S>&);             \
  template int64_t scratch_size(const ChannelwiseProductBackward<S>&);     \
  template const char* launch(const ChannelwiseProduct<S>&, void*, void*); \
  template const char* launch(const ChannelwiseProductBackward<S>&, void*, void*)

EQUIGEO_INSTANTIATE(float);
EQUIGEO_INSTANTIATE(double);
EQUIGEO_INSTANTIATE(Bf16);

}  // namespace equigeo
