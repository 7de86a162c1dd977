// The sources of kernels that are compiled at run time, which the build embeds.
#include "kernel_sources.h"

// JSON: an object with the text of each header by its name. Python calls it, see
// equigeo/ops/run_time_kernels.py.
extern "C" __attribute__((visibility("default"))) const char* equigeo_kernel_sources() {
  return kKernelSources;
}
