// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/contraction_rows.h"
#include "math/edges.h"

namespace equigeo {
namespace {

template <class T>
struct Block {
  using Pack = WidePack<T>;
  const Polynomials<T>& table;
  T* nodes;
  Source<Pack, T> x, weight;
  Sink<T> z;

  template <int N>
  void at(int64_t u) const {
    const NodeArray<Pack, N, N * kWidth<Pack, T>, T> array{nodes};
    make_nodes(table, x.at(u), array);
    contract(table, array, weight.at(u), z.at(u));
  }
};

template <class T>
int rows(const SymmetricContraction<T>& op, int64_t begin, int64_t end) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  const int most = numbers_together(op.table.nodes * kW * sizeof(T));
  const int64_t array = most * op.table.nodes * kW;
  Scratch<T> memory(
      Scratch<T>::round_up(array) + RowScratch<T>::size(op.in, op.channels) +
      RowScratch<T>::size(op.out, op.channels) +
      WeightScratch<T>::size(op.table.weights, op.channels));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* nodes = memory.take(array);
  RowScratch<T> x(op.in, op.channels, memory), z(op.out, op.channels, memory);
  WeightScratch<T> weight(op.table.weights, op.channels, memory);
  int stray = 0;
  const Index index{op.index, op.sets, &stray};
  for (int64_t r = begin; r < end; ++r) {
    T* row = op.z + r * op.channels * op.table.components;
    const Block<T> block{
        op.table, nodes, {x.load(op.x, r)}, {weight.load(op.weight, index[r])}, {z.open(row)}};
    for_channels<T>(padded(op.channels), most, block);
    z.store(row);
  }
  return stray ? kStrayIndex : 0;
}

}  // namespace

const Kernels<SymmetricContraction> EQUIGEO_FOR_ISA(symmetric_contraction_rows) = {
    rows<float>, rows<double>};

}  // namespace equigeo
