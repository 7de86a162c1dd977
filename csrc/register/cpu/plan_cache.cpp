#include "register/cpu/plan_cache.h"

namespace equigeo {

std::atomic<int64_t> plans_made{0};

}  // namespace equigeo

extern "C" __attribute__((visibility("default"))) int64_t equigeo_plans_made() {
  return equigeo::plans_made;
}
