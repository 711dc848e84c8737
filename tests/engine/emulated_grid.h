// Functions of a GPU that the grid kernels use and emulated.h lacks. The grid has one block.
#pragma once
#include "emulated.h"
#include "emulated_bits.h"

#define memory dynamic
inline void __syncwarp() {}
inline void __threadfence() {}
