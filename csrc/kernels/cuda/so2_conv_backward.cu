// Edges come sorted by source. Everything of a chunk of them is computed again, and all gradients:
// those of features are added to the rows of their sources, those of edges and of their numbers are
// written, and those of weights are summed by parts of each chunk, one chunk after another.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/so2_gradients.cuh"
#include "kernels/cuda/so2_mix.cuh"
#include "kernels/cuda/so2_turn_back.cuh"

namespace equigeo {
namespace {

template <class T>
struct BackwardScratch {
  int64_t top, chunk;
  DevicePlan<T> device;
  EdgeChunk<T> edges;
  T *factors, *slopes;
  Orders<T> sent, modulated, pulled, arriving, mixed;
  WeightSums<T> sums;

  BackwardScratch(const SO2ConvBackward<T>& op, Carver& memory)
      : top(op.plan.mmax + (op.of_vectors ? 1 : 0)),
        chunk(chunk_of<T>(op.edges, numbers_of_edge(op, top))),
        device(op.plan, memory),
        edges(cut_edges(
            {op.sources, op.edges, op.targets, op.back_ptr, op.back_order, op.order, op.target},
            op.vectors,
            op.envelope,
            chunk,
            memory)),
        factors(memory.take<T>(mapped(op) * chunk * op.plan.scale_numel)),
        slopes(memory.take<T>(mapped(op) * chunk * op.plan.scale_numel)),
        sent(cut_orders<T>(op.plan.width_in, top, chunk, memory)),
        modulated(
            op.modulation.scale == nullptr
                ? sent
                : cut_orders<T>(op.plan.width_in, op.plan.mmax, chunk, memory)),
        pulled(cut_orders<T>(op.plan.width_in, op.plan.mmax, chunk, memory)),
        arriving(cut_orders<T>(op.plan.width_out, top, chunk, memory)),
        mixed(cut_orders<T>(op.plan.width_out, op.plan.mmax, chunk, memory)),
        sums(op, chunk, memory) {}

 private:
  static bool mapped(const SO2ConvBackward<T>& op) { return op.modulation.radial != nullptr; }

  static int64_t numbers_of_edge(const SO2ConvBackward<T>& op, int64_t top) {
    const SO2Plan& plan = op.plan;
    return 3 * order_numbers(plan.width_in, top) + 2 * order_numbers(plan.width_out, top) +
           2 * mapped(op) * plan.scale_numel;
  }
};

template <class T>
int64_t size_of(const SO2ConvBackward<T>& op) {
  Carver memory(nullptr);
  BackwardScratch<T>(op, memory);
  return memory.used();
}

// Features and the gradient that arrives, into the frames of a chunk of edges.
template <class T>
void turn_both(
    const SO2ConvBackward<T>& op,
    const BackwardScratch<T>& scratch,
    const Factors<T>& factors,
    void* stream) {
  const SO2Plan& plan = scratch.device.plan;
  Turn<T> in{};
  in.tables = scratch.device.tables;
  in.plan = plan;
  in.edges = scratch.edges;
  in.top = scratch.top;
  in.factors = factors;
  in.sides = 2;
  in.side[0] = {op.x,        scratch.edges.row, plan.in, plan.terms_in,
                plan.dim_in, scratch.sent,      true,    scratch.modulated};
  in.side[1] = {op.grad,      scratch.edges.other, plan.out, plan.terms_out,
                plan.dim_out, scratch.arriving,    true,     {}};
  turn(in, stream);
}

// What is left to do when the gradient has come through the matrices.
template <class T>
void differentiate(
    const SO2ConvBackward<T>& op,
    const BackwardScratch<T>& scratch,
    const Factors<T>& factors,
    void* stream) {
  const SO2Plan& plan = scratch.device.plan;
  const bool mapped = op.modulation.radial != nullptr;
  DifferentiateEdges<T> of_edges{};
  of_edges.tables = scratch.device.tables;
  of_edges.plan = plan;
  of_edges.edges = scratch.edges;
  of_edges.factors = factors;
  of_edges.slopes = factors;
  of_edges.slopes.at = mapped ? scratch.slopes : op.grad_scale;
  of_edges.sent = scratch.sent;
  of_edges.pulled = scratch.pulled;
  of_edges.arriving = scratch.arriving;
  of_edges.mixed = scratch.mixed;
  of_edges.grad_vectors = op.of_vectors ? op.grad_vectors : nullptr;
  launch_edges(differentiate_edges<T>, of_edges, stream);
  if (mapped) {
    map_numbers_back(op, scratch.edges, scratch.slopes, stream);
  }
  if (mapped && op.of_weights) {
    scratch.sums.add_radial(plan, op.modulation, scratch.edges, scratch.slopes, stream);
  }
  TurnBack<T> back{};
  back.tables = scratch.device.tables;
  back.plan = plan;
  back.edges = scratch.edges;
  back.term = plan.in;
  back.terms = plan.terms_in;
  back.dim = plan.dim_in;
  back.from = scratch.pulled;
  back.rows = op.grad_x;
  turn_back(back, stream);
}

template <class T>
void run_chunk(const SO2ConvBackward<T>& op, const BackwardScratch<T>& scratch, void* stream) {
  const EdgeChunk<T>& edges = scratch.edges;
  const SO2Plan& plan = scratch.device.plan;
  Factors<T> factors{op.modulation.scale, plan.scale_numel, edges.own};
  if (op.modulation.radial != nullptr) {
    map_numbers(plan, op.modulation, edges, scratch.factors, stream);
    factors = {scratch.factors, plan.scale_numel, nullptr};
  }
  turn_both(op, scratch, factors, stream);
  const bool messages = op.of_vectors || op.grad_envelope != nullptr;
  if (messages) {
    mix_orders(plan, op.weight, false, scratch.modulated, scratch.mixed, edges.count, stream);
  }
  const WeighEdges<T> weigh{plan,     edges,         scratch.top, scratch.arriving,
                            messages, scratch.mixed, op.bias,     op.grad_envelope};
  launch_edges(weigh_edges<T>, weigh, stream);
  mix_orders(plan, op.weight, true, scratch.arriving, scratch.pulled, edges.count, stream);
  if (op.of_weights) {
    scratch.sums.add_orders(
        plan, scratch.arriving, scratch.modulated, edges, &scratch.device.tables->one, stream);
  }
  differentiate(op, scratch, factors, stream);
}

template <class T>
const char* run(const SO2ConvBackward<T>& op, void* memory, void* stream) {
  Carver carver(memory);
  BackwardScratch<T> scratch(op, carver);
  EdgeChunk<T>& edges = scratch.edges;
  scratch.device.make(stream);
  const int64_t dim = op.plan.dim_in;
  launch_threads(clear_rows<T>, op.sources * dim, stream, edges.list, op.grad_x, dim);
  for_chunks(edges, scratch.chunk, stream, [&] { run_chunk(op, scratch, stream); });
  const WeightSums<T>& sums = scratch.sums;
  if (op.edges > 0 && op.of_weights) {
    launch_threads(
        add_parts<T>, sums.weights, stream, static_cast<const T*>(sums.weight), sums.parts,
        sums.weights, op.grad_weight);
    launch_threads(
        add_parts<T>, sums.biases, stream, static_cast<const T*>(sums.bias), sums.parts,
        sums.biases, op.grad_bias);
    launch_threads(
        add_parts<T>, sums.radials, stream, static_cast<const T*>(sums.radial), sums.parts,
        sums.radials, op.grad_radial);
  }
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SO2ConvBackward)

}  // namespace equigeo
