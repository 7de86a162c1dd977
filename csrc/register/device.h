// The device that this library is for: the files of this folder are compiled once into each
// library, and this is the only place that asks for which.
//
// Either file defines `new_result` and `run(op, like)` for every op, where `like` is a tensor on
// the device. The simulated library does what the one for CUDA does, with tensors of the CPU.
#pragma once

#ifdef EQUIGEO_CUDA
#include "register/cuda/run.h"

#define EQUIGEO_DEVICE CUDA
#elif defined(EQUIGEO_SIMULATED)
#include "register/cuda/run.h"
#define EQUIGEO_DEVICE CPU
#else
#include "register/cpu/run.h"
#define EQUIGEO_DEVICE CPU
#endif
