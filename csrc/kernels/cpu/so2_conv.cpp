// Compiled once per instruction set: no torch, no C++ standard headers.
//
// Edges come sorted by target. Those of a tile are rotated into their frames, order by order into
// the operands of matrix products, and rotated back onto the rows of their targets.
#include "kernels/cpu/so2_tile.h"

namespace equigeo {
namespace {

template <class T>
class Convolved {
 public:
  explicit Convolved(const SO2PackedConv<T>& op)
      : op_(op),
        plan_(op.plan),
        memory_(
            TileRotations<T>::size(plan_) + TileModulation<T>::size(plan_, op.packed) +
            orders_size<T>(plan_, plan_.width_in, plan_.mmax, 3) +
            orders_size<T>(plan_, plan_.width_out, plan_.mmax, 2) +
            Scratch<T>::round_up(plan_.tile)),
        rows_(Scratch<int64_t>::round_up(2 * plan_.tile)),
        rotations_(plan_, memory_),
        modulation_(plan_, op.packed, memory_) {}

  bool failed() const { return memory_.failed() || rows_.failed(); }

  // All edges of targets [begin, end), whose results are zero so far.
  int run(int64_t begin, int64_t end) {
    sent_ = take_orders(plan_, plan_.width_in, plan_.mmax, 3, memory_);
    mixed_ = take_orders(plan_, plan_.width_out, plan_.mmax, 2, memory_);
    inverse_ = memory_.take(plan_.tile);
    targets_ = rows_.take(plan_.tile);
    orders_ = rows_.take(plan_.tile);
    fill_zero(op_.out + begin * plan_.dim_out, (end - begin) * plan_.dim_out);
    int stray = 0;
    int64_t count = 0, first = op_.ptr[begin];
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t k = op_.ptr[t]; k < op_.ptr[t + 1]; ++k) {
        targets_[count++] = t;
        if (count == plan_.tile) {
          run_tile(first, count, &stray);
          first += count;
          count = 0;
        }
      }
    }
    run_tile(first, count, &stray);
    return stray;
  }

 private:
  void run_tile(int64_t first, int64_t edges, int* stray) {
    const Index order{op_.order, op_.edges, stray}, source{op_.source, op_.sources, stray};
    for (int64_t e = 0; e < edges; ++e) {
      orders_[e] = order[first + e];
    }
    const auto row = [&](int64_t e) { return orders_[e]; };
    rotations_.compute(
        edges, plan_.mmax, [&](int64_t e) { return op_.vectors + 3 * orders_[e]; }, inverse_);
    modulation_.compute(edges, row);
    for (int64_t e = 0; e < edges; ++e) {
      if (e + 1 < edges) {
        prefetch_row(op_.x + source[first + e + 1] * plan_.dim_in, plan_.dim_in);
        modulation_.prefetch(orders_[e + 1]);
      }
      turn(source[first + e], e);
    }
    mix_orders(
        plan_, sent_, plan_.width_in, op_.matrices, plan_.forward, plan_.width_out, mixed_, edges);
    for (int64_t e = 0; e < edges; ++e) {
      finish(e);
    }
  }

  void turn(int64_t source, int64_t e) {
    const T* x = op_.x + source * plan_.dim_in;
    const T* scale = modulation_.any() ? modulation_.of(e, orders_[e]) : nullptr;
    for (int64_t n = 0; n < plan_.terms_in; ++n) {
      const SO2Term& term = plan_.in[n];
      const T* factors[kMostOrders];
      for (int64_t m = 0; scale != nullptr && m <= term.l && m <= plan_.mmax; ++m) {
        factors[m] = scale + scale_of(plan_, term, m);
      }
      turn_term(
          term, rotations_.of(e, term.l), x + term.offset, sent_, e, plan_.mmax,
          scale == nullptr ? nullptr : factors);
    }
  }

  // Bias, factor of the message, and the way back.
  void finish(int64_t e) {
    if (inverse_[e] == 0) {
      return;
    }
    if (op_.bias != nullptr) {
      T* zero = mixed_.row(0, 0, e);
      for (int64_t c = 0; c < plan_.width_out[0]; ++c) {
        zero[c] += op_.bias[c];
      }
    }
    if (op_.envelope != nullptr) {
      const T factor = op_.envelope[orders_[e]];
      for (int64_t m = 0; m <= plan_.mmax; ++m) {
        for (int64_t part = 0; part <= (m > 0); ++part) {
          T* row = mixed_.row(m, part, e);
          for (int64_t c = 0; c < plan_.width_out[m]; ++c) {
            row[c] *= factor;
          }
        }
      }
    }
    T* out = op_.out + targets_[e] * plan_.dim_out;
    for (int64_t n = 0; n < plan_.terms_out; ++n) {
      const SO2Term& term = plan_.out[n];
      turn_term_back(term, rotations_.of(e, term.l), mixed_, e, plan_.mmax, out + term.offset);
    }
  }

  const SO2PackedConv<T>& op_;
  const SO2Plan& plan_;
  Scratch<T> memory_;
  Scratch<int64_t> rows_;
  TileRotations<T> rotations_;
  TileModulation<T> modulation_;
  Orders<T> sent_{}, mixed_{};
  T* inverse_ = nullptr;
  int64_t *targets_ = nullptr, *orders_ = nullptr;
};

template <class T>
int convolve_rows(const SO2PackedConv<T>& op, int64_t begin, int64_t end) {
  Convolved<T> convolved(op);
  return convolved.failed() ? kOutOfMemory : convolved.run(begin, end);
}

// Matrices of an order; of a complex one those that meet the sum of both parts, the imaginary part
// and the real one. The adjoint has the transposed matrices, the imaginary one with the other sign.
template <class T>
int pack_orders(const SO2Pack<T>& op, int64_t begin, int64_t end) {
  const SO2Plan& plan = op.plan;
  for (int64_t m = begin; m < end; ++m) {
    const int64_t in = plan.width_in[m], out = plan.width_out[m];
    const T *real = op.weight + plan.weight[m], *imaginary = real + in * out;
    const int64_t inner = op.adjoint ? out : in, columns = op.adjoint ? in : out;
    const T sign = op.adjoint ? T(-1) : T(1);
    T* packed = op.packed + (op.adjoint ? plan.adjoint : plan.forward)[m];
    const int64_t size = padded_width(columns) * inner;
    const auto at = [&](int64_t k, int64_t n) { return op.adjoint ? k * in + n : n * in + k; };
    pack_panels<T>(inner, columns, packed, [&](int64_t k, int64_t n) { return real[at(k, n)]; });
    if (matrices_of(plan, m) == 1) {
      continue;
    }
    pack_panels<T>(inner, columns, packed + size, [&](int64_t k, int64_t n) {
      return -(real[at(k, n)] + sign * imaginary[at(k, n)]);
    });
    pack_panels<T>(inner, columns, packed + 2 * size, [&](int64_t k, int64_t n) {
      return sign * imaginary[at(k, n)] - real[at(k, n)];
    });
  }
  return 0;
}

template <class T>
int pack_radial(const SO2PackRadial<T>& op, int64_t, int64_t) {
  pack_panels<T>(op.inner, op.columns, op.packed, [&](int64_t k, int64_t n) {
    return op.matrix[op.transposed ? n * op.inner + k : k * op.columns + n];
  });
  return 0;
}

}  // namespace

const Kernels<SO2PackedConv> EQUIGEO_FOR_ISA(so2_conv_rows) = {
    convolve_rows<float>, convolve_rows<double>};
const Kernels<SO2Pack> EQUIGEO_FOR_ISA(so2_pack_orders) = {pack_orders<float>, pack_orders<double>};
const Kernels<SO2PackRadial> EQUIGEO_FOR_ISA(so2_pack_radial) = {
    pack_radial<float>, pack_radial<double>};

}  // namespace equigeo
