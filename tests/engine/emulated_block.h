// What the block kernels need of a GPU besides emulated.h: shared memory of their own, and values from other lanes.
#pragma once
#define BF16 0
#include "emulated.h"
#include "emulated_bits.h"

#undef __shared__
#define __shared__ static
#define __cvta_generic_to_shared(pointer) ((size_t)(pointer))

// A warp waits for its lanes at a multiply-add: one of nothing, around which they show each other their values. Two slots
// take turns, since a lane may be at its next exchange before another one has read.
inline float __shfl_xor_sync(unsigned, float value, int mask) {
    static float shown[2][1024];
    static int turns[1024];
    const int self = threadIdx.x, turn = turns[self]++ % 2;
    float nothing[4] = {};
    const unsigned none[4] = {};
    shown[turn][self] = value;
    multiply_add(nothing, none, 0, 0);
    return shown[turn][self ^ mask];
}
