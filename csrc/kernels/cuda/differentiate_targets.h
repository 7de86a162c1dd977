// Gradients of convolutions of path tables that have kernels of their own.
#pragma once

#include "kernels/cuda/differentiate_products.h"

namespace equigeo {

// What gradients by targets need beside those by sources: the edges by their targets, and scratch
// memory for what a chunk of them adds to gradients of x, and for parts of gradients of y.
struct TargetGradients {
  Plan<float> plan;  // with tiles of the output
  EdgeList edges;
  float* messages;  // (chunk, numbers of a message), components outside; null for other tables
  float* seconds;   // (blocks of a target, chunk, dim_y) if these are several
  int64_t chunk;
  bool wanted;  // whether there are weights of edges, and all three gradients are asked for
};

// Scratch memory for these, if they are wanted and the table may be a known one: whether it is, the
// device finds out when memory has been allocated.
TargetGradients cut_target_gradients(
    const Plan<float>& plan, const EdgeList& edges, bool wanted, Carver& memory);

// Queue the kernels that are for a table of these sizes, if there are any. Whether it is that table
// is known on the device alone: they or the kernel of all tables have nothing to do.
bool differentiate_targets(
    const DifferentiateProducts<float>& op, const TargetGradients& by, void* stream);

}  // namespace equigeo
