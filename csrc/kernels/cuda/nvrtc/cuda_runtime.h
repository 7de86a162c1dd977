// Stands in for CUDA's header of this name where kernels are compiled at run time: NVRTC declares
// functions and types of the device itself.
#pragma once

#define __builtin_memcpy memcpy
