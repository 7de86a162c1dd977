// Path tables of models: their sizes, as ChannelwiseTensorProduct has them, and their parts.
#include "check.h"
#include "kernels/cuda/known_models.h"

namespace equigeo {
namespace {

struct Wanted {
  const KnownTable& table;
  int64_t count, coefficients, dim_x, dim_y, dim_out, dim_weight;
};

const Wanted kWanted[] = {
    {kMaceSmall, 4, 16, 128, 16, 2048, 512},     {kMaceMedium, 10, 86, 512, 16, 5120, 1280},
    {kMaceLarge, 17, 215, 1152, 16, 9088, 2176}, {kNequip1, 10, 32, 256, 4, 704, 320},
    {kNequip2, 30, 274, 576, 9, 3264, 960},      {kSevenNet0, 15, 137, 480, 9, 3136, 960},
    {kSevenNet3, 34, 611, 704, 16, 7776, 1760},  {kNequix, 23, 353, 704, 16, 5472, 1312},
};

const bool sizes = check::add("tables have the sizes of layers, each its own", [] {
  check::holds(sizeof(kWanted) / sizeof(kWanted[0]) == kNumKnown, "all tables");
  for (const Wanted& wanted : kWanted) {
    check::holds(known_table(wanted) == &wanted.table, "found by its sizes");
    int64_t coefficients = 0;
    for (int p = 0; p < wanted.table.paths; ++p) {
      coefficients += wanted.table.path[p].terms;
    }
    check::holds(coefficients == wanted.coefficients, "as many coefficients");
  }
});

const bool parts = check::add("parts take each path and channel once, and fit into registers", [] {
  for (const KnownTable* table : kKnownTables) {
    for (int p = 0; p < table->paths; ++p) {
      const int q = table->path[p].part;
      check::holds(0 <= q && q < table->parts, "a part of its own");
      check::holds(table->part[q].mul == table->mul(p), "with as many channels");
    }
    for (int q = 0; q < table->parts; ++q) {
      const KnownPart& part = table->part[q];
      check::holds(part.numbers == table->sums_before(q, table->paths), "all numbers");
      check::holds(part.numbers * part.strands <= kMostSums, "no more than registers");
      check::holds(32 * table->warps * part.strands * part.repeats >= part.mul, "all channels");
    }
  }
});

const bool wide = check::add("lanes take few channels of many components at once", [] {
  constexpr KnownTable kTable = natural({32, 1024}, 1, 0);
  const KnownPart& part = kTable.part[kTable.path[1].part];
  check::holds(part.mul == 1024 && part.strands == 5 && part.repeats == 7, "15 of 16 numbers");
});

const bool chance = check::add("coefficients are zero by parity, order and by chance", [] {
  const KnownPath even = with_terms(0, 2, 3, 3), odd = with_terms(0, 1, 1, 1);
  check::holds(!even.couples(2, 5, 5) && even.couples(2, 6, 6), "orders 0, 2, 2 by chance");
  check::holds(odd.couples(0, 1, 2) && !odd.couples(1, 1, 1) && odd.terms == 6, "a cross product");
});

}  // namespace
}  // namespace equigeo
