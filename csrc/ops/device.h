// The device that this library is for; op files are compiled once into each library.
#pragma once

#ifdef EQUIGEO_CUDA
#include "ops/cuda/device.h"
#else
#include "ops/cpu/device.h"
#endif
