// What the grid kernels need of a GPU besides emulated.h. One block is a grid of its own.
#pragma once
#include "emulated.h"
#include "emulated_bits.h"

#define memory dynamic
inline void __syncwarp() {}
inline void __threadfence() {}
