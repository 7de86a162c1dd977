// What a table is compiled with at run time, see equigeo/ops/run_time_kernels.py: kernels by the
// names that are asked for.
#pragma once

#include "kernels/cuda/known_gradients.cuh"
#include "kernels/cuda/known_sums.cuh"
#include "kernels/cuda/numbered_table.h"
