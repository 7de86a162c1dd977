#include "ops/cuda/channelwise_product.h"

#include "ops/cuda/backward_tiles.cuh"
#include "ops/cuda/forward_tiles.cuh"
#include "ops/cuda/make_plan.cuh"

namespace equigeo {

template <class T>
int64_t scratch_size(const ChannelwiseProduct<T>& op) {
  Carver memory(nullptr);
  cut_plan(op.paths, Side::kOut, memory);
  return memory.used();
}

template <class T>
int64_t scratch_size(const ChannelwiseProductBackward<T>& op) {
  Carver memory(nullptr);
  cut_plan(op.paths, Side::kFirst, memory);
  return memory.used();
}

template <class T>
const char* launch(const ChannelwiseProduct<T>& op, void* scratch, void* stream) {
  Carver memory(scratch);
  const Plan<T> plan = cut_plan(op.paths, Side::kOut, memory);
  if (const char* error = launch_plan(op.paths, plan, stream)) {
    return error;
  }
  const ForwardPass<T> pass{plan, op.x, op.y, op.weight, op.out, op.paths.ir_mul};
  return launch_forward(pass, OwnRow{op.rows}, stream);
}

template <class T>
const char* launch(const ChannelwiseProductBackward<T>& op, void* scratch, void* stream) {
  Carver memory(scratch);
  const Plan<T> plan = cut_plan(op.paths, Side::kFirst, memory);
  if (const char* error = launch_plan(op.paths, plan, stream)) {
    return error;
  }
  BackwardPass<T> pass{};
  pass.plan = plan;
  pass.grad = op.grad;
  pass.x = op.x;
  pass.y = op.y;
  pass.weight = op.weight;
  pass.grad_x = op.grad_x;
  pass.grad_y = op.grad_y;
  pass.grad_weight = op.grad_weight;
  pass.in_ir_mul = op.paths.ir_mul;
  return launch_backward(pass, OwnRow{op.rows}, stream);
}

template int64_t scratch_size(const ChannelwiseProduct<float>&);
template int64_t scratch_size(const ChannelwiseProduct<double>&);
template int64_t scratch_size(const ChannelwiseProductBackward<float>&);
template int64_t scratch_size(const ChannelwiseProductBackward<double>&);
template const char* launch(const ChannelwiseProduct<float>&, void*, void*);
template const char* launch(const ChannelwiseProduct<double>&, void*, void*);
template const char* launch(const ChannelwiseProductBackward<float>&, void*, void*);
template const char* launch(const ChannelwiseProductBackward<double>&, void*, void*);

}  // namespace equigeo
