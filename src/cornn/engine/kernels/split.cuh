// Products in the accuracy of fp32 on tensor cores. A value is the sum of three bf16 pieces of 8 bits each. Of the nine
// products of the pieces of two values, the six that are large enough to matter in fp32 are added up.
//
// A tensor core truncates its sums towards zero. So the products of 16 columns are summed from zero, the smallest
// first, and this sum is added to the others in fp32, rounded to nearest.
#pragma once
#include "tensor_core.cuh"

static_assert(BF16, "the pieces are bf16");

constexpr int PIECES = 3, SPLIT_PRODUCTS = 6;
// The pieces of the left and of the right factor in product n, as digits.
__device__ __forceinline__ constexpr int left_piece(int n) { return 0x001012 >> 4 * n & 15; }
__device__ __forceinline__ constexpr int right_piece(int n) { return 0x010210 >> 4 * n & 15; }

// Splits x and y into pieces; a word has one piece of each.
__device__ __forceinline__ void split(float x, float y, unsigned (&words)[PIECES]) {
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        const float pair[2] = {x, y};
        words[p] = rounded(pair);
        x -= __uint_as_float(words[p] << 16);
        y -= __uint_as_float(words[p] & 0xffff0000u);
    }
}
