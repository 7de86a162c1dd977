// Compiled once per instruction set: no torch, no C++ standard headers.
//
// One sweep over the edges sorted by source computes everything again, tile by tile, and all
// gradients: those of features are added to the rows of their sources, those of edges and of their
// numbers are written, and those of weights are summed by part.
#include "kernels/cpu/dot.h"
#include "kernels/cpu/so2_gradients.h"
#include "kernels/cpu/so2_torque.h"

namespace equigeo {
namespace {

template <class T>
class Differentiated {
 public:
  explicit Differentiated(const SO2PackedConvBackward<T>& op)
      : op_(op),
        plan_(op.plan),
        top_(plan_.mmax + (op.of_vectors ? 1 : 0)),
        memory_(
            TileRotations<T>::size(plan_) + TileModulation<T>::size(plan_, op.packed) +
            2 * orders_size<T>(plan_, plan_.width_in, top_, 3) +
            orders_size<T>(plan_, plan_.width_in, top_, 2) +
            orders_size<T>(plan_, plan_.width_out, top_, 3) +
            orders_size<T>(plan_, plan_.width_out, top_, 2) + Scratch<T>::round_up(2 * plan_.tile) +
            WeightSums<T>::size(op)),
        rows_(4 * Scratch<int64_t>::round_up(plan_.tile)),
        rotations_(plan_, memory_),
        modulation_(plan_, op.packed, memory_),
        torque_(plan_.lmax, plan_.mmax) {
    if (failed()) {
      return;
    }
    sent_ = take_orders(plan_, plan_.width_in, top_, 3, memory_);
    modulated_ = modulation_.any() ? take_orders(plan_, plan_.width_in, top_, 3, memory_) : sent_;
    pulled_ = take_orders(plan_, plan_.width_in, top_, 2, memory_);
    arriving_ = take_orders(plan_, plan_.width_out, top_, 3, memory_);
    mixed_ = take_orders(plan_, plan_.width_out, top_, 2, memory_);
    inverse_ = memory_.take(plan_.tile);
    factor_ = memory_.take(plan_.tile);
    sources_ = rows_.take(plan_.tile);
    targets_ = rows_.take(plan_.tile);
    orders_ = rows_.take(plan_.tile);
  }

  bool failed() const { return memory_.failed() || rows_.failed(); }

  // All sources of one part.
  int run(int64_t part) {
    WeightSums<T> sums(op_, memory_);
    const int64_t begin = part * op_.rows_of_part;
    const int64_t last = begin + op_.rows_of_part;
    const int64_t end = last < op_.sources ? last : op_.sources;
    if (plan_.dim_in > 0) {  // else there is no memory
      fill_zero(op_.grad_x + begin * plan_.dim_in, (end - begin) * plan_.dim_in);
    }
    int stray = 0;
    int64_t count = 0, first = op_.back_ptr[begin];
    for (int64_t s = begin; s < end; ++s) {
      for (int64_t k = op_.back_ptr[s]; k < op_.back_ptr[s + 1]; ++k) {
        sources_[count++] = s;
        if (count == plan_.tile) {
          run_tile(first, count, sums, &stray);
          first += count;
          count = 0;
        }
      }
    }
    run_tile(first, count, sums, &stray);
    sums.write(part);
    return stray;
  }

 private:
  void run_tile(int64_t first, int64_t edges, WeightSums<T>& sums, int* stray) {
    const Index position{op_.back_order, op_.edges, stray};
    const Index order{op_.order, op_.edges, stray}, target{op_.target, op_.targets, stray};
    for (int64_t e = 0; e < edges; ++e) {
      const int64_t at = position[first + e];
      targets_[e] = target[at];
      orders_[e] = order[at];
    }
    rotations_.compute(
        edges, top_, [&](int64_t e) { return op_.vectors + 3 * orders_[e]; }, inverse_);
    modulation_.compute(edges, [&](int64_t e) { return orders_[e]; });
    for (int64_t e = 0; e < edges; ++e) {
      if (e + 1 < edges) {
        prefetch_row(op_.grad + targets_[e + 1] * plan_.dim_out, plan_.dim_out);
        modulation_.prefetch(orders_[e + 1]);
      }
      factor_[e] = inverse_[e] == 0          ? T(0)
                   : op_.envelope == nullptr ? T(1)
                                             : op_.envelope[orders_[e]];
      turn(e);
    }
    if (op_.of_vectors || op_.envelope != nullptr) {
      mix_again(edges);
    }
    for (int64_t e = 0; e < edges; ++e) {
      scale_arriving(e);
    }
    mix_orders(
        plan_, arriving_, plan_.width_out, op_.adjoint, plan_.adjoint, plan_.width_in, pulled_,
        edges);
    if (op_.of_weights) {
      sums.add(arriving_, modulated_, edges);
    }
    if (modulation_.any()) {
      differentiate_modulation(edges, sums);
    }
    for (int64_t e = 0; e < edges; ++e) {
      finish(e);
    }
  }

  // Features of the source and the gradient that arrives at the target, into the frame.
  void turn(int64_t e) {
    const T* x = op_.x + sources_[e] * plan_.dim_in;
    for (int64_t n = 0; n < plan_.terms_in; ++n) {
      const SO2Term& term = plan_.in[n];
      turn_term<T>(term, rotations_.of(e, term.l), x + term.offset, sent_, e, top_, nullptr);
    }
    const T* grad = op_.grad + targets_[e] * plan_.dim_out;
    for (int64_t n = 0; n < plan_.terms_out; ++n) {
      const SO2Term& term = plan_.out[n];
      turn_term<T>(term, rotations_.of(e, term.l), grad + term.offset, arriving_, e, top_, nullptr);
    }
    if (modulation_.any()) {
      modulate(e);
    }
  }

  void modulate(int64_t e) {
    const T* scale = modulation_.of(e, orders_[e]);
    each_part([&](const SO2Term& term, int64_t m, int64_t part) {
      const T* factors = scale + scale_of(plan_, term, m);
      const T* from = sent_.row(m, part, e) + term.column[m];
      T* to = modulated_.row(m, part, e) + term.column[m];
      over_channels<T>(term.mul, [&](auto pack, auto packs, int64_t first) {
        using Pack = decltype(pack);
        using At = Memory<Pack, T>;
        each_pack<Pack, T>(packs, first, [&](int64_t c) {
          At::store(to + c, At::load(factors + c) * At::load(from + c));
        });
      });
    });
  }

  template <class Take>
  void each_part(const Take& take) const {
    for (int64_t n = 0; n < plan_.terms_in; ++n) {
      const SO2Term& term = plan_.in[n];
      for (int64_t m = 0; m <= term.l && m <= plan_.mmax; ++m) {
        for (int64_t part = 0; part <= (m > 0); ++part) {
          take(term, m, part);
        }
      }
    }
  }

  void mix_again(int64_t edges) {
    mix_orders(
        plan_, modulated_, plan_.width_in, op_.matrices, plan_.forward, plan_.width_out, mixed_,
        edges);
    for (int64_t e = 0; e < edges && op_.bias != nullptr; ++e) {
      T* zero = mixed_.row(0, 0, e);
      for (int64_t c = 0; c < plan_.width_out[0]; ++c) {
        zero[c] += op_.bias[c];
      }
    }
  }

  // The gradient of the factor of a message, and that factor onto the gradient that arrives.
  void scale_arriving(int64_t e) {
    if (op_.grad_envelope != nullptr) {
      T total = 0;
      for (int64_t m = 0; m <= plan_.mmax; ++m) {
        for (int64_t part = 0; part <= (m > 0); ++part) {
          total += dot(arriving_.row(m, part, e), mixed_.row(m, part, e), plan_.width_out[m]);
        }
      }
      op_.grad_envelope[orders_[e]] = inverse_[e] == 0 ? T(0) : total;
    }
    if (factor_[e] == 1) {
      return;
    }
    for (int64_t m = 0; m <= top_; ++m) {
      for (int64_t part = 0; part <= (m > 0); ++part) {
        T* row = arriving_.row(m, part, e);
        for (int64_t c = 0; c < plan_.width_out[m]; ++c) {
          row[c] *= factor_[e];
        }
      }
    }
  }

  // Gradients of the numbers of an edge, and of its features before they were modulated.
  void differentiate_modulation(int64_t edges, WeightSums<T>& sums) {
    for (int64_t e = 0; e < edges; ++e) {
      const T* scale = modulation_.of(e, orders_[e]);
      T* slopes = sums.slopes(e, orders_[e]);
      if (e + 1 < edges) {
        prefetch_row(sums.slopes(e + 1, orders_[e + 1]), plan_.scale_numel);
      }
      each_part([&](const SO2Term& term, int64_t m, int64_t part) {
        const bool first = plan_.by_order ? part == 0 : m == 0;
        const T* factors = scale + scale_of(plan_, term, m);
        T* to = slopes + scale_of(plan_, term, m);
        const T* sent = sent_.row(m, part, e) + term.column[m];
        T* pulled = pulled_.row(m, part, e) + term.column[m];
        over_channels<T>(term.mul, [&](auto pack, auto packs, int64_t begin) {
          using Pack = decltype(pack);
          using At = Memory<Pack, T>;
          each_pack<Pack, T>(packs, begin, [&](int64_t c) {
            const auto slope = At::load(pulled + c);
            const auto product = slope * At::load(sent + c);
            At::store(to + c, first ? product : At::load(to + c) + product);
            At::store(pulled + c, slope * At::load(factors + c));
          });
        });
      });
    }
    sums.add_radial(modulation_, edges, orders_);
  }

  void finish(int64_t e) {
    T* to = op_.grad_x + sources_[e] * plan_.dim_in;
    for (int64_t n = 0; n < plan_.terms_in && inverse_[e] != 0; ++n) {
      const SO2Term& term = plan_.in[n];
      turn_term_back(term, rotations_.of(e, term.l), pulled_, e, plan_.mmax, to + term.offset);
    }
    if (!op_.of_vectors) {
      return;
    }
    torque_.clear();
    torque_.add(plan_.out, plan_.terms_out, arriving_, mixed_, e);
    torque_.add(plan_.in, plan_.terms_in, sent_, pulled_, e);
    const T about_x = torque_.about_x(), about_z = torque_.about_z();
    T* slope = op_.grad_vectors + 3 * orders_[e];
    if (plan_.lmax == 0) {
      fill_zero(slope, 3);
      return;
    }
    const T* frame = rotations_.of(e, 1);  // rows x, y and z
    constexpr int64_t kLanes = TileRotations<T>::kLanes;
    for (int64_t k = 0; k < 3; ++k) {
      const T first = frame[k * kLanes], third = frame[(6 + k) * kLanes];
      slope[k] = (about_x * third - about_z * first) * inverse_[e];
    }
  }

  const SO2PackedConvBackward<T>& op_;
  const SO2Plan& plan_;
  int64_t top_;
  Scratch<T> memory_;
  Scratch<int64_t> rows_;
  TileRotations<T> rotations_;
  TileModulation<T> modulation_;
  Torque<T> torque_;
  Orders<T> sent_{}, modulated_{}, pulled_{}, arriving_{}, mixed_{};
  T *inverse_ = nullptr, *factor_ = nullptr;
  int64_t *sources_ = nullptr, *targets_ = nullptr, *orders_ = nullptr;
};

template <class T>
int differentiate_parts(const SO2PackedConvBackward<T>& op, int64_t begin, int64_t end) {
  int stray = 0;
  for (int64_t part = begin; part < end; ++part) {
    Differentiated<T> differentiated(op);
    if (differentiated.failed()) {
      return kOutOfMemory;
    }
    stray |= differentiated.run(part);
  }
  return stray;
}

}  // namespace

const Kernels<SO2PackedConvBackward> EQUIGEO_FOR_ISA(so2_conv_backward_parts) = {
    differentiate_parts<float>, differentiate_parts<double>};

}  // namespace equigeo
