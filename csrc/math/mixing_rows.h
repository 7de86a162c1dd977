// Mixing the channels of one row by a team of lanes, as a warp does on a GPU.
//
// Couplings of some pairs of channels at a time are kept in a tile that the team shares; their
// weights are then read side by side. See copy_rows.h about teams.
#pragma once

#include "args/products.h"
#include "math/copy_rows.h"

namespace equigeo {
namespace {

// Memory of a team, for `size` couplings and as many gradients of couplings.
template <class T>
struct CouplingTile {
  T* couplings;
  T* slopes;
  int64_t size;
};

// Pairs (u, v) = (n / mul2, n % mul2) with begin <= n < end.
struct PairRange {
  int64_t begin, end;
};

// The row of a fully connected product, whose weights are those of the row.
template <class T, class Team>
struct MixingRow {
  CopyRow<T> row;
  CouplingTile<T> tile;
  Team team;

  // Call run(path, pairs) for ranges of pairs whose couplings fit into the tile, and are there.
  template <class Run>
  EQUIGEO_HOST_DEVICE void for_tiles(const Run& run) const {
    for (int64_t p = 0; p < row.table.count; ++p) {
      const Path& path = row.table.path[p];
      const int64_t all = path.x.mul * path.y.mul, most = tile.size / path.out.d;
      for (int64_t begin = 0; begin < all; begin += most) {
        const PairRange pairs{begin, begin + most < all ? begin + most : all};
        couple(path, pairs);
        run(path, pairs);
        team.sync();
      }
    }
  }

  EQUIGEO_HOST_DEVICE void couple(const Path& path, const PairRange& pairs) const {
    const int64_t d = path.out.d, mul2 = path.y.mul;
    for (int64_t n = team.lane; n < (pairs.end - pairs.begin) * d; n += team.lanes) {
      const int64_t pair = pairs.begin + n / d;
      tile.couplings[n] = couple_copies(row, path, pair / mul2, pair % mul2, n % d);
    }
    team.sync();
  }

  EQUIGEO_HOST_DEVICE const T* weights(const Path& path, const PairRange& pairs) const {
    return row.weight + path.weight + pairs.begin * path.out.mul;
  }

  // out_wk += sum over pairs of couplings and weights
  EQUIGEO_HOST_DEVICE void mix(const Path& path, const PairRange& pairs, T* out) const {
    const int64_t mul3 = path.out.mul, d = path.out.d, count = pairs.end - pairs.begin;
    const T* weight = weights(path, pairs);
    for (int64_t n = team.lane; n < mul3 * d; n += team.lanes) {
      const int64_t k = n / mul3, w = n % mul3;
      T sum = 0;
      for (int64_t pair = 0; pair < count; ++pair) {
        sum += tile.couplings[pair * d + k] * weight[pair * mul3 + w];
      }
      out[position(path.out, w, k)] += sum;
    }
  }

  // Gradients of weights, unless null, and couplings.
  EQUIGEO_HOST_DEVICE void arrive(
      const Path& path, const PairRange& pairs, const T* grad, T* grad_weight) const {
    const int64_t mul3 = path.out.mul, d = path.out.d, count = pairs.end - pairs.begin;
    const T* weight = weights(path, pairs);
    const int64_t at = path.weight + pairs.begin * mul3;
    for (int64_t n = team.lane; grad_weight != nullptr && n < count * mul3; n += team.lanes) {
      T sum = 0;
      for (int64_t k = 0; k < d; ++k) {
        sum += tile.couplings[n / mul3 * d + k] * grad[position(path.out, n % mul3, k)];
      }
      grad_weight[at + n] += sum;
    }
    for (int64_t n = team.lane; n < count * d; n += team.lanes) {
      T sum = 0;
      for (int64_t w = 0; w < mul3; ++w) {
        sum += weight[n / d * mul3 + w] * grad[position(path.out, w, n % d)];
      }
      tile.slopes[n] = sum;
    }
    team.sync();
  }

  // Component i of channel u, from the pairs of the tile.
  EQUIGEO_HOST_DEVICE T
  first(const Path& path, const PairRange& pairs, int64_t u, int64_t i) const {
    T sum = 0;
    for (int64_t v = 0; v < path.y.mul; ++v) {
      const int64_t pair = u * path.y.mul + v;
      for (int64_t n = path.first; n < path.last && is_in(pair, pairs); ++n) {
        const Entry e = row.table.entry[n];
        if (e.i == i) {
          sum +=
              row.table.value[n] * row.y[position(path.y, v, e.j)] * slope(path, pairs, pair, e.k);
        }
      }
    }
    return sum;
  }

  EQUIGEO_HOST_DEVICE T
  second(const Path& path, const PairRange& pairs, int64_t v, int64_t j) const {
    T sum = 0;
    for (int64_t u = 0; u < path.x.mul; ++u) {
      const int64_t pair = u * path.y.mul + v;
      for (int64_t n = path.first; n < path.last && is_in(pair, pairs); ++n) {
        const Entry e = row.table.entry[n];
        if (e.j == j) {
          sum +=
              row.table.value[n] * row.x[position(path.x, u, e.i)] * slope(path, pairs, pair, e.k);
        }
      }
    }
    return sum;
  }

  static EQUIGEO_HOST_DEVICE bool is_in(int64_t pair, const PairRange& pairs) {
    return pairs.begin <= pair && pair < pairs.end;
  }

  EQUIGEO_HOST_DEVICE T
  slope(const Path& path, const PairRange& pairs, int64_t pair, int64_t k) const {
    return tile.slopes[(pair - pairs.begin) * path.out.d + k];
  }

  EQUIGEO_HOST_DEVICE void leave(
      const Path& path, const PairRange& pairs, T* grad_x, T* grad_y) const {
    for (int64_t n = team.lane; n < path.x.mul * path.x.d; n += team.lanes) {
      const int64_t u = n / path.x.d, i = n % path.x.d;
      grad_x[position(path.x, u, i)] += first(path, pairs, u, i);
    }
    for (int64_t n = team.lane; n < path.y.mul * path.y.d; n += team.lanes) {
      const int64_t v = n / path.y.d, j = n % path.y.d;
      grad_y[position(path.y, v, j)] += second(path, pairs, v, j);
    }
  }
};

template <class T, class Team>
EQUIGEO_HOST_DEVICE void fully_connected_row(
    const FullyConnectedProduct<T>& op,
    int64_t number,
    const CouplingTile<T>& tile,
    const Team& team) {
  const MixingRow<T, Team> row{{op, number}, tile, team};
  T* out = op.out + number * op.table.dim_out;
  clear_row(out, op.table.dim_out, team);
  row.for_tiles([&](const Path& path, const PairRange& pairs) { row.mix(path, pairs, out); });
}

template <class T, class Team>
EQUIGEO_HOST_DEVICE void fully_connected_backward_row(
    const FullyConnectedProductBackward<T>& op,
    int64_t number,
    const CouplingTile<T>& tile,
    const Team& team) {
  const MixingRow<T, Team> row{{op, number}, tile, team};
  const T* grad = op.grad + number * op.table.dim_out;
  T* grad_x = op.grad_x + number * op.table.dim_x;
  T* grad_y = op.grad_y + number * op.table.dim_y;
  const bool by_weight = op.grad_weight != nullptr;
  T* grad_weight = by_weight ? op.grad_weight + number * op.table.dim_weight : nullptr;
  clear_row(grad_x, op.table.dim_x, team);
  clear_row(grad_y, op.table.dim_y, team);
  clear_row(grad_weight, by_weight ? op.table.dim_weight : 0, team);
  row.for_tiles([&](const Path& path, const PairRange& pairs) {
    row.arrive(path, pairs, grad, grad_weight);
    row.leave(path, pairs, grad_x, grad_y);
  });
}

}  // namespace
}  // namespace equigeo
