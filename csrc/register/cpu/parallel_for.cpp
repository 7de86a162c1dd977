#include "register/cpu/parallel_for.h"

namespace equigeo {

std::atomic<double> work_per_thread{1 << 20};

}  // namespace equigeo

extern "C" __attribute__((visibility("default"))) void equigeo_set_work_per_thread(double work) {
  equigeo::work_per_thread = work;
}
