#include "args/products.h"

#include "kernels/cuda/differentiate_products.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

template <class S>
int64_t size_of(const ChannelwiseProduct<S>& op) {
  Carver memory(nullptr);
  cut_plans(op.table, memory);
  return memory.used();
}

template <class S>
int64_t size_of(const ChannelwiseProductBackward<S>& op) {
  Carver memory(nullptr);
  cut_plans(op.table, memory);
  cut_sums(op.grad_x, op.rows * op.table.dim_x, memory);
  return memory.used();
}

template <class S>
const char* run(const ChannelwiseProduct<S>& op, void* scratch, void* stream) {
  Carver memory(scratch);
  const Plans<Compute<S>> plans = cut_plans(op.table, memory);
  SumProducts<S> sums{};
  sums.plan = plans.by_out;
  sums.edges = own_rows(op.rows);
  sums.x = op.x;
  sums.y = op.y;
  sums.weight = op.weight;
  sums.weight_stride = op.weight_stride;
  sums.out = op.out;
  sums.x_ir_mul = op.table.ir_mul;
  const char* error = make_plans(op.table, plans, stream);
  return error == nullptr ? sum_products(sums, stream) : error;
}

template <class S>
const char* run(const ChannelwiseProductBackward<S>& op, void* scratch, void* stream) {
  Carver memory(scratch);
  const Plans<Compute<S>> plans = cut_plans(op.table, memory);
  DifferentiateProducts<S> gradients{};
  gradients.plan = plans.by_first;
  gradients.edges = own_rows(op.rows);
  gradients.grad = op.grad;
  gradients.x = op.x;
  gradients.y = op.y;
  gradients.weight = op.weight;
  gradients.weight_stride = op.weight_stride;
  gradients.grad_x = op.grad_x;
  gradients.grad_y = op.grad_y;
  gradients.grad_weight = op.grad_weight;
  gradients.sums = cut_sums(op.grad_x, op.rows * op.table.dim_x, memory);
  gradients.in_ir_mul = op.table.ir_mul;
  const char* error = make_plans(op.table, plans, stream);
  return error == nullptr ? differentiate_products(gradients, stream) : error;
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(ChannelwiseProduct)
EQUIGEO_DEFINE_LAUNCH(ChannelwiseProduct<Bf16>)
EQUIGEO_DEFINE_LAUNCHES(ChannelwiseProductBackward)
EQUIGEO_DEFINE_LAUNCH(ChannelwiseProductBackward<Bf16>)

}  // namespace equigeo
