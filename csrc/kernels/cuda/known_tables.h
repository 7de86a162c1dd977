// Path tables in kernels of their own, in which all sizes are constants. A table is a plain struct,
// so that a source with one can be written at run time as well.
#pragma once

#include <stdint.h>

#include "math/host_device.h"

namespace equigeo {

constexpr int kMostSegments = 12, kMostPaths = 72, kMostParts = 12;

// Channels of a degree of the first input, with a parity that is 1 where it is odd.
struct KnownSegment {
  int mul, l, odd;

  EQUIGEO_HOST_DEVICE constexpr int d() const { return 2 * l + 1; }
};

// A path couples a segment of x, of degree l1, and degree l2 into l3, with so many coefficients.
struct KnownPath {
  int segment, l1, l2, l3, terms;
  int part;

  EQUIGEO_HOST_DEVICE constexpr int d1() const { return 2 * l1 + 1; }
  EQUIGEO_HOST_DEVICE constexpr int d2() const { return 2 * l2 + 1; }
  EQUIGEO_HOST_DEVICE constexpr int d3() const { return 2 * l3 + 1; }
  EQUIGEO_HOST_DEVICE constexpr int before_y() const { return l2 * l2; }

  // Whether components of the three couple. They are those of real harmonics, by order from -l to
  // l, where orders below zero are sines.
  EQUIGEO_HOST_DEVICE constexpr bool couples(int i, int j, int k) const {
    const int m1 = i - l1, m2 = j - l2, m3 = k - l3;
    const int a = m1 < 0 ? -m1 : m1, b = m2 < 0 ? -m2 : m2, c = m3 < 0 ? -m3 : m3;
    if (((m1 < 0) + (m2 < 0) + (m3 < 0) + l1 + l2 + l3) % 2 != 0) {
      return false;
    }
    return (a + b == c && coupling(a, b) != 0) ||
           ((a + c == b || b + c == a) && coupling(a, -b) != 0);
  }

 private:
  EQUIGEO_HOST_DEVICE static constexpr int64_t choose(int n, int k) {
    int64_t ways = k < 0 || k > n ? 0 : 1;
    for (int m = 1; ways != 0 && m <= k; ++m) {
      ways = ways * (n - k + m) / m;
    }
    return ways;
  }

  // The coefficient of complex harmonics of orders m1, m2 and m1 + m2, but for a factor that is
  // not zero: Racah's sum. Some are zero by chance, such as that of degrees 2, 3, 3 and orders
  // 0, 2, 2.
  EQUIGEO_HOST_DEVICE constexpr int64_t coupling(int m1, int m2) const {
    int64_t sum = 0;
    for (int k = 0; k <= l1 + l2 - l3; ++k) {
      const int64_t term = choose(l1 + l2 - l3, k) * choose(l1 - l2 + l3, l1 - m1 - k) *
                           choose(l2 - l1 + l3, l2 + m2 - k);
      sum += k % 2 == 0 ? term : -term;
    }
    return sum;
  }
};

// Paths that a warp sums at once, of segments with equally many channels. Its lanes take `strands`
// channels each, and `repeats` blocks all of them.
struct KnownPart {
  int numbers;  // of the output, per channel
  int mul, strands, repeats;
};

// Paths in the order of the output. Segments of x and of the output lie side by side. The second
// input has one copy of each degree. Coefficients are listed by i, j and k.
struct KnownTable {
  int second;     // components of the second input
  bool in_order;  // whether weights lie in the order of paths; if not, they may lie anywhere
  int warps;      // of a block
  int segments, paths, parts;
  KnownSegment segment[kMostSegments];
  KnownPath path[kMostPaths];
  KnownPart part[kMostParts];

  EQUIGEO_HOST_DEVICE constexpr int mul(int p) const { return segment[path[p].segment].mul; }

  // Numbers of a row before a segment of x, before a path in the output and its weights in order;
  // behind the last one all of them.
  EQUIGEO_HOST_DEVICE constexpr int before_x(int s) const {
    int sum = 0;
    for (int n = 0; n < s; ++n) {
      sum += segment[n].mul * segment[n].d();
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int before_out(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += mul(n) * path[n].d3();
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int before_weight(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += mul(n);
    }
    return sum;
  }

  // The same among the paths of a part: paths, numbers of the output per channel, those of the
  // matrices of an edge, which are dense, and coefficients. The last two begin words of 16 bytes.
  EQUIGEO_HOST_DEVICE constexpr int paths_before(int q, int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += path[n].part == q;
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int sums_before(int q, int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += path[n].part == q ? path[n].d3() : 0;
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int matrices_before(int q, int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += path[n].part == q ? (path[n].d1() * path[n].d3() + 3) / 4 * 4 : 0;
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int terms_before(int q, int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += path[n].part == q ? (path[n].terms + 3) / 4 * 4 : 0;
    }
    return sum;
  }

  // Whether a part has paths of a segment; what edges add to the gradient of the segment there
  // has a place of its own.
  EQUIGEO_HOST_DEVICE constexpr bool has(int q, int s) const {
    bool any = false;
    for (int n = 0; n < paths; ++n) {
      any = any || (path[n].part == q && path[n].segment == s);
    }
    return any;
  }
  EQUIGEO_HOST_DEVICE constexpr int before_message(int q, int s) const {
    int sum = 0;
    for (int n = 0; n < q * segments + s; ++n) {
      const KnownSegment& other = segment[n % segments];
      sum += has(n / segments, n % segments) ? other.mul * other.d() : 0;
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int messages() const { return before_message(parts, 0); }

  // Blocks of a target.
  EQUIGEO_HOST_DEVICE constexpr int slices() const {
    int sum = 0;
    for (int q = 0; q < parts; ++q) {
      sum += part[q].repeats;
    }
    return sum;
  }

  // Whether a table may be this one, as far as the host knows; kernels know the rest.
  template <class Table>
  bool has_sizes_of(const Table& table) const {
    return table.count == paths && table.dim_y == second && table.dim_x == before_x(segments) &&
           table.dim_out == before_out(paths) && table.dim_weight == before_weight(paths);
  }
};

namespace {

// Which components j and k couple with one i: bit d3 j + k. Numbers, since compilers keep arrays of
// constants in memory.
struct KnownCouplings {
  uint64_t low, high, rest;
  int d3;

  EQUIGEO_HOST_DEVICE constexpr bool has(int j, int k) const {
    const int n = j * d3 + k;
    return ((n < 64 ? low : n < 128 ? high : rest) >> n % 64) % 2 != 0;
  }
};

EQUIGEO_HOST_DEVICE constexpr KnownCouplings couplings_of(const KnownPath& path, int i) {
  KnownCouplings couplings{0, 0, 0, path.d3()};
  for (int n = 0; n < path.d2() * path.d3(); ++n) {
    if (path.couples(i, n / path.d3(), n % path.d3())) {
      (n < 64 ? couplings.low : n < 128 ? couplings.high : couplings.rest) |= uint64_t{1} << n % 64;
    }
  }
  return couplings;
}

constexpr KnownPath with_terms(int segment, int l1, int l2, int l3) {
  KnownPath path{segment, l1, l2, l3, 0, -1};
  for (int n = 0; n < path.d1() * path.d2() * path.d3(); ++n) {
    path.terms += path.couples(n / path.d3() / path.d2(), n / path.d3() % path.d2(), n % path.d3());
  }
  return path;
}

// Numbers of a target that a lane holds at most: where all fit, those of one part. Of a segment of
// x, unless one channel has more.
constexpr int kMostSums = 72, kUsualSums = 56, kMostOfSegment = 16;

// Blocks of 32 channels of a segment, for each warp.
EQUIGEO_HOST_DEVICE constexpr int units_of(const KnownTable& table, int mul) {
  return (mul + 32 * table.warps - 1) / (32 * table.warps);
}

// The part that has room for one more path of a segment with so many numbers; a new one if none
// has. Paths of a segment stay together if they fit.
constexpr int place_path(KnownTable& table, int mul, int numbers, int most) {
  int q = 0;
  while (q < table.parts && (table.part[q].mul != mul || table.part[q].numbers + numbers > most)) {
    ++q;
  }
  if (q == table.parts) {
    table.part[table.parts++] = {0, mul, 1, 1};
  }
  table.part[q].numbers += numbers;
  return q;
}

// Cut a table into parts of at most so many numbers, or of as many as registers suffice for. Warps
// of a block take the same channels of each number of a segment with the fewest channels; others
// have several channels per lane, and several blocks.
constexpr KnownTable cut_table(KnownTable table, int most) {
  int least = table.segment[0].mul, all = 0, numbers[kMostSegments] = {};
  for (int s = 0; s < table.segments; ++s) {
    least = table.segment[s].mul < least ? table.segment[s].mul : least;
  }
  table.warps = (least + 31) / 32;
  for (int p = 0; p < table.paths; ++p) {
    numbers[table.path[p].segment] += table.path[p].d3();
    all += table.path[p].d3() * units_of(table, table.mul(p));
  }
  if (most == 0) {
    most = all <= kMostSums ? kMostSums : kUsualSums;
  }
  for (int n = 0; n < table.segments; ++n) {
    int s = 0;  // the largest one that is left
    for (int other = 1; other < table.segments; ++other) {
      s = numbers[other] > numbers[s] ? other : s;
    }
    int q = -1;
    if (numbers[s] <= most) {
      q = place_path(table, table.segment[s].mul, numbers[s], most);
    }
    for (int p = 0; p < table.paths; ++p) {
      if (table.path[p].segment == s) {
        const int d3 = table.path[p].d3();
        table.path[p].part = q >= 0 ? q : place_path(table, table.segment[s].mul, d3, most);
      }
    }
    numbers[s] = -1;
  }
  for (int q = 0; q < table.parts; ++q) {
    KnownPart& part = table.part[q];
    const int units = units_of(table, part.mul);
    part.repeats = (units * part.numbers + most - 1) / most;
    part.repeats = part.repeats < units ? part.repeats : units;
    int d = 1;  // of the largest segment
    for (int s = 0; s < table.segments; ++s) {
      d = table.has(q, s) && table.segment[s].d() > d ? table.segment[s].d() : d;
    }
    const auto strands = [&] { return (units + part.repeats - 1) / part.repeats; };
    while (strands() * part.numbers > most || (strands() > 1 && strands() * d > kMostOfSegment)) {
      ++part.repeats;
    }
    part.strands = strands();
  }
  return table;
}

// Parities of degrees: those of harmonics, all even, or both.
enum class Parity { kNatural, kEven, kBoth };

constexpr bool has_parity(Parity parity, int l, int odd) {
  return parity == Parity::kBoth || odd == (parity == Parity::kNatural ? l % 2 : 0);
}

// All couplings of segments, each once, with harmonics up to lmax2 into degrees up to lmax3. The
// output is sorted by degree, odd before even, then by segments and harmonics.
template <int N>
constexpr KnownTable coupled(
    const KnownSegment (&x)[N],
    int lmax2,
    int lmax3,
    Parity second,
    Parity out,
    bool in_order = false,
    int most = 0) {
  KnownTable table{(lmax2 + 1) * (lmax2 + 1), in_order, 0, N, 0, 0, {}, {}, {}};
  for (int s = 0; s < N; ++s) {
    table.segment[s] = x[s];
  }
  for (int l3 = 0; l3 <= lmax3; ++l3) {
    for (int odd = 1; odd >= 0; --odd) {
      for (int n = 0; has_parity(out, l3, odd) && n < N * (lmax2 + 1); ++n) {
        const int s = n / (lmax2 + 1), l1 = x[s].l, l2 = n % (lmax2 + 1);
        const bool triangle = l1 <= l2 + l3 && l2 <= l1 + l3 && l3 <= l1 + l2;
        if (triangle && has_parity(second, l2, (odd + x[s].odd) % 2)) {
          table.path[table.paths++] = with_terms(s, l1, l2, l3);
        }
      }
    }
  }
  return cut_table(table, most);
}

// The same for one segment of each degree up to N - 1, all with parities of harmonics.
template <int N>
constexpr KnownTable natural(const int (&mul)[N], int lmax2, int lmax3, bool in_order = false) {
  KnownSegment x[N] = {};
  for (int l = 0; l < N; ++l) {
    x[l] = {mul[l], l, l % 2};
  }
  return coupled(x, lmax2, lmax3, Parity::kNatural, Parity::kNatural, in_order);
}

// All with even parity.
template <int N>
constexpr KnownTable even(const int (&mul)[N], int lmax2, int lmax3) {
  KnownSegment x[N] = {};
  for (int l = 0; l < N; ++l) {
    x[l] = {mul[l], l, 0};
  }
  return coupled(x, lmax2, lmax3, Parity::kEven, Parity::kEven);
}

// Two segments of each degree below D, one of either parity.
template <int D>
constexpr KnownTable both(int mul) {
  KnownSegment x[2 * D] = {};
  for (int n = 0; n < 2 * D; ++n) {
    x[n] = {mul, n / 2, 1 - n % 2};
  }
  return coupled(x, D - 1, D - 1, Parity::kNatural, Parity::kBoth);
}

}  // namespace
}  // namespace equigeo
