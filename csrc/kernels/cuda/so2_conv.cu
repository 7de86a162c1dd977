// Edges come sorted by target. Those of a chunk are rotated into their frames, order by order into
// the operands of matrix products, mixed, and rotated back onto the rows of their targets. Their
// matrices are made in shared memory, once for each way; the operands, which for many channels are
// larger than that, lie in a scratch memory whose size a chunk bounds.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/so2_mix.cuh"
#include "kernels/cuda/so2_turn_back.cuh"

namespace equigeo {
namespace {

template <class T>
struct ForwardScratch {
  int64_t chunk;
  DevicePlan<T> device;
  EdgeChunk<T> edges;
  T* factors;
  Orders<T> sent, mixed;

  ForwardScratch(const SO2Conv<T>& op, Carver& memory)
      : chunk(chunk_of<T>(op.edges, numbers_of_edge(op))),
        device(op.plan, memory),
        edges(cut_edges(
            {op.targets, op.edges, op.sources, op.ptr, nullptr, op.order, op.source},
            op.vectors,
            op.envelope,
            chunk,
            memory)),
        factors(memory.take<T>(mapped(op) * chunk * op.plan.scale_numel)),
        sent(cut_orders<T>(op.plan.width_in, op.plan.mmax, chunk, memory)),
        mixed(cut_orders<T>(op.plan.width_out, op.plan.mmax, chunk, memory)) {}

 private:
  static bool mapped(const SO2Conv<T>& op) { return op.modulation.radial != nullptr; }

  static int64_t numbers_of_edge(const SO2Conv<T>& op) {
    const SO2Plan& plan = op.plan;
    return order_numbers(plan.width_in, plan.mmax) + order_numbers(plan.width_out, plan.mmax) +
           mapped(op) * plan.scale_numel;
  }
};

template <class T>
int64_t size_of(const SO2Conv<T>& op) {
  Carver memory(nullptr);
  ForwardScratch<T>(op, memory);
  return memory.used();
}

template <class T>
const char* run(const SO2Conv<T>& op, void* memory, void* stream) {
  Carver carver(memory);
  ForwardScratch<T> scratch(op, carver);
  EdgeChunk<T>& edges = scratch.edges;
  scratch.device.make(stream);
  const SO2Plan& plan = scratch.device.plan;
  launch_threads(
      clear_rows<T>, op.targets * plan.dim_out, stream, edges.list, op.out, plan.dim_out);
  const bool modulated = op.modulation.scale != nullptr;
  for_chunks(edges, scratch.chunk, stream, [&] {
    Turn<T> in{};
    in.tables = scratch.device.tables;
    in.plan = plan;
    in.edges = edges;
    in.top = plan.mmax;
    in.factors = {op.modulation.scale, plan.scale_numel, edges.own};
    if (op.modulation.radial != nullptr) {
      map_numbers(plan, op.modulation, edges, scratch.factors, stream);
      in.factors = {scratch.factors, plan.scale_numel, nullptr};
    }
    in.sides = 1;
    TurnedRows<T>& sent = in.side[0];
    sent = {op.x, edges.other, plan.in, plan.terms_in, plan.dim_in, {}, false, {}};
    (modulated ? sent.modulated : sent.to) = scratch.sent;
    sent.kept = !modulated;
    turn(in, stream);
    mix_orders(plan, op.weight, false, scratch.sent, scratch.mixed, edges.count, stream);
    TurnBack<T> out{};
    out.tables = scratch.device.tables;
    out.plan = plan;
    out.edges = edges;
    out.term = plan.out;
    out.terms = plan.terms_out;
    out.dim = plan.dim_out;
    out.from = scratch.mixed;
    out.bias = op.bias;
    out.factor = edges.factor;
    out.rows = op.out;
    turn_back(out, stream);
  });
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SO2Conv)

}  // namespace equigeo
