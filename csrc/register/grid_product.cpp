#include "args/grid_product.h"

#include <algorithm>

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {
namespace {

// The two tables of an expansion.
struct Tables {
  Tensor legendre, trig;
  int64_t summands, lmax;

  Tables(
      const Tensor& like,
      const Tensor& legendre_given,
      const Tensor& trig_given,
      int64_t latitudes,
      int64_t longitudes) {
    EQUIGEO_CHECK(
        legendre_given.dim() == 3 && trig_given.dim() == 3, "tables must have three axes");
    const ScalarType dtype = like.scalar_type();
    summands = legendre_given.size(0);
    EQUIGEO_CHECK(summands > 0, "tables must have a summand");
    check_components("the number of orders", trig_given.size(1));
    lmax = (trig_given.size(1) - 1) / 2;
    EQUIGEO_CHECK(
        trig_given.size(1) == 2 * lmax + 1 && legendre_given.size(1) == (lmax + 1) * (lmax + 1),
        "tables must be for (L + 1)^2 coefficients and 2 L + 1 orders");
    legendre = checked(
        "legendre", legendre_given, like, dtype, {summands, legendre_given.size(1), latitudes});
    trig = checked("trig", trig_given, like, dtype, {summands, 2 * lmax + 1, longitudes});
  }

  template <class T>
  Expansion<T> view() const {
    return {read<T>(legendre), read<T>(trig), summands, lmax};
  }
};

Tensor grid_product_op(
    Tensor x,
    Tensor y,
    Tensor legendre_x,
    Tensor trig_x,
    Tensor legendre_y,
    Tensor trig_y,
    Tensor legendre_z,
    Tensor trig_z) {
  EQUIGEO_CHECK(x.dim() == 2, "x must be (samples, coefficients)");
  EQUIGEO_CHECK(legendre_x.dim() == 3 && trig_x.dim() == 3, "tables must have three axes");
  const int64_t latitudes = legendre_x.size(2), longitudes = trig_x.size(2);
  const Tables first(x, legendre_x, trig_x, latitudes, longitudes);
  const Tables second(x, legendre_y, trig_y, latitudes, longitudes);
  const Tables third(x, legendre_z, trig_z, latitudes, longitudes);
  const int64_t samples = x.size(0);
  const int64_t summands = std::max({first.summands, second.summands, third.summands});
  for (const Tables* tables : {&first, &second, &third}) {
    EQUIGEO_CHECK(
        tables->summands == 1 || tables->summands == summands, "tables must have 1 or ", summands,
        " summands, got ", tables->summands);
  }
  x = checked("x", x, x, x.scalar_type(), {samples, first.legendre.size(1)});
  y = checked("y", y, x, x.scalar_type(), {samples, second.legendre.size(1)});
  Tensor out = new_result(x, {samples, third.legendre.size(1)});
  if (all_empty({&out})) {
    return out;
  }
  for_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    run(
        GridProduct<T>{
            first.view<T>(), second.view<T>(), third.view<T>(), samples, summands, latitudes,
            longitudes, read<T>(x), read<T>(y), write<T>(out)},
        x);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("grid_product", TORCH_BOX(&equigeo::grid_product_op));
}
