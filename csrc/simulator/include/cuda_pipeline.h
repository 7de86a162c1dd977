// Stands in for CUDA's header of this name, whose functions are in simulator/kernel_calls.h.
#pragma once

#include <cuda_runtime.h>
