#include "ops/cuda/channelwise_conv.h"

#include "ops/cuda/backward_tiles.cuh"
#include "ops/cuda/forward_tiles.cuh"
#include "ops/cuda/make_plan.cuh"
#include "ops/cuda/outside_components.cuh"

namespace equigeo {
namespace {

// Rows of features with components outside, in scratch memory where they come otherwise.
template <class T>
T* cut_rows(const Paths<T>& paths, int64_t rows, int64_t dim, Carver& memory) {
  return paths.ir_mul ? nullptr : memory.take<T>(rows * dim);
}

template <class T>
struct ForwardScratch {
  Plan<T> plan;
  T* x;

  ForwardScratch(const ChannelwiseConv<T>& op, Carver& memory)
      : plan(cut_plan(op.paths, Side::kOut, memory)),
        x(cut_rows(op.paths, op.graph.sources, op.paths.dim_x, memory)) {}
};

template <class T>
struct BackwardScratch {
  Plan<T> plan;
  T* x;
  T* grad;

  BackwardScratch(const ChannelwiseConvBackward<T>& op, Carver& memory)
      : plan(cut_plan(op.paths, Side::kFirst, memory)),
        x(cut_rows(op.paths, op.graph.sources, op.paths.dim_x, memory)),
        grad(cut_rows(op.paths, op.graph.targets, op.paths.dim_out, memory)) {}
};

}  // namespace

template <class T>
int64_t scratch_size(const ChannelwiseConv<T>& op) {
  Carver memory(nullptr);
  ForwardScratch<T>(op, memory);
  return memory.used();
}

template <class T>
int64_t scratch_size(const ChannelwiseConvBackward<T>& op) {
  Carver memory(nullptr);
  BackwardScratch<T>(op, memory);
  return memory.used();
}

template <class T>
const char* launch(const ChannelwiseConv<T>& op, void* memory, void* stream) {
  Carver carver(memory);
  const ForwardScratch<T> scratch(op, carver);
  if (const char* error = launch_plan(op.paths, scratch.plan, stream)) {
    return error;
  }
  const T* x = op.x;
  if (!op.paths.ir_mul) {
    launch_outside(scratch.plan, Side::kFirst, op.x, scratch.x, op.graph.sources, stream);
    x = scratch.x;
  }
  const ForwardPass<T> pass{scratch.plan, x, op.y, op.weight, op.out, true};
  return launch_forward(pass, ArrivingEdges{op.graph.targets, op.graph}, stream);
}

template <class T>
const char* launch(const ChannelwiseConvBackward<T>& op, void* memory, void* stream) {
  Carver carver(memory);
  const BackwardScratch<T> scratch(op, carver);
  if (const char* error = launch_plan(op.paths, scratch.plan, stream)) {
    return error;
  }
  BackwardPass<T> pass{};
  pass.plan = scratch.plan;
  pass.grad = op.grad;
  pass.x = op.x;
  pass.y = op.y;
  pass.weight = op.weight;
  pass.grad_x = op.grad_x;
  pass.grad_y = op.grad_y;
  pass.grad_weight = op.grad_weight;
  pass.in_ir_mul = true;
  if (!op.paths.ir_mul) {
    launch_outside(scratch.plan, Side::kFirst, op.x, scratch.x, op.graph.sources, stream);
    launch_outside(scratch.plan, Side::kOut, op.grad, scratch.grad, op.graph.targets, stream);
    pass.x = scratch.x;
    pass.grad = scratch.grad;
  }
  return launch_backward(pass, LeavingEdges{op.graph.sources, op.graph}, stream);
}

template int64_t scratch_size(const ChannelwiseConv<float>&);
template int64_t scratch_size(const ChannelwiseConv<double>&);
template int64_t scratch_size(const ChannelwiseConvBackward<float>&);
template int64_t scratch_size(const ChannelwiseConvBackward<double>&);
template const char* launch(const ChannelwiseConv<float>&, void*, void*);
template const char* launch(const ChannelwiseConv<double>&, void*, void*);
template const char* launch(const ChannelwiseConvBackward<float>&, void*, void*);
template const char* launch(const ChannelwiseConvBackward<double>&, void*, void*);

}  // namespace equigeo
