// The products of a grid on tensor cores. A warp has a part of the columns of both matrices in registers: the first
// matrix is rows 0 to 7 of a multiply-add, the second rows 8 to 15. Each lane copies the values that it needs to shared
// memory, all at once, and multiplies them as they arrive; then the sums of the warps are added up.
//
// Values are rounded when they are published, and stored in the order in which lanes load them: [8 sequences][16 words
// of neurons][lane][4 words], where lane 4 g + t has sequence g and words 4 t to 4 t + 3. As in tensor.cuh, products
// sum over the words in the order of these loads.
//
// The second product of the forward pass is summed over all steps. Rounding errors of the values would accumulate, so
// the rounding error of each value is added to the next value.
#pragma once
#include "tensor_core.cuh"

constexpr int TILES = SEQUENCES / 8, BANDS = ROWS / 8;   // multiply-adds along the sequences, along the neurons
constexpr int ALL_PARTS = SIZE / (16 * PACK);            // of 16 words each
constexpr int PARTS = ALL_PARTS / WARPS;                 // per warp
constexpr int SLOT = SEQUENCES * SIZE / PACK;            // words of a slot
constexpr int PITCH = ROWS + 4;                          // so that lanes of a warp write to different banks

static_assert(SEQUENCES % 8 == 0 && ROWS % 8 == 0 && ALL_PARTS % WARPS == 0, "whole multiply-adds");

struct Memory {
    uint4 values[TILES][PARTS][THREADS];
    float sums[WARPS][2][SEQUENCES * PITCH];
};

struct Weights {
    unsigned words[PARTS][BANDS][2][4];
};

// The rounding error of the last published value of a pair.
struct Residue {
    float lost = 0.f;

    // The factor of the next value in the sum is `now`, that of the last one was `before`. An error that would change
    // the next value too much is dropped.
    __device__ __forceinline__ void rescale(float before, float now) {
        if (before != now) lost *= before < 8.f * now ? before / now : 0.f;
    }
};

__device__ __forceinline__ void store(float* slot, int neuron, int sequence, float value, Residue& residue) {
    const float sum = value + residue.lost;
    const int part = neuron / (16 * PACK), word = neuron % (16 * PACK) / PACK;
    const int to = ((sequence / 8 * ALL_PARTS + part) * 32 + sequence % 8 * 4 + word / 4) * 4 + word % 4;
#if BF16
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(sum));
    residue.lost = sum - __uint_as_float((unsigned)bits << 16);
    reinterpret_cast<unsigned short*>(slot)[2 * to + neuron % 2] = bits;
#else
    const unsigned bits = rounded(&sum) & 0xffffe000u;
    residue.lost = sum - __uint_as_float(bits);
    reinterpret_cast<unsigned*>(slot)[to] = bits;
#endif
}

// As in grid_exact.cuh; here every lane loads its own.
template <bool, typename At>
__device__ __forceinline__ void load(Memory&, Weights& weights, const At& at) {
    const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int p = 0; p < PARTS; ++p)
#pragma unroll
        for (int band = 0; band < BANDS; ++band)
#pragma unroll
            for (int w = 0; w < 4; ++w)
#pragma unroll
                for (int second = 0; second < 2; ++second) {
                    const int column = ((warp * PARTS + p) * 16 + 4 * t + w) * PACK;
                    float pair[2] = {at(second, 8 * band + row, column), 0.f};
                    if (PACK == 2) pair[1] = at(second, 8 * band + row, column + 1);
                    weights.words[p][band][w / 2][w % 2 * 2 + second] = rounded(pair);
                }
}

template <int TILE>
__device__ __forceinline__ void multiply_tiles(Memory& shared, const Weights& weights) {
    if constexpr (TILE < TILES) {
        wait<TILES - 1 - TILE>();
        float sums[BANDS][4] = {};
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            const uint4 v = shared.values[TILE][p][threadIdx.x];
#pragma unroll
            for (int band = 0; band < BANDS; ++band) multiply_add(sums[band], weights.words[p][band][0], v.x, v.y);
#pragma unroll
            for (int band = 0; band < BANDS; ++band) multiply_add(sums[band], weights.words[p][band][1], v.z, v.w);
        }
        const int row = threadIdx.x % 32 / 4, sequence = 8 * TILE + 2 * (threadIdx.x % 4);
        float* to = shared.sums[threadIdx.x / 32][0] + sequence * PITCH + row;
#pragma unroll
        for (int band = 0; band < BANDS; ++band) {
            to[8 * band] = sums[band][0];
            to[8 * band + PITCH] = sums[band][1];
            to[8 * band + SEQUENCES * PITCH] = sums[band][2];
            to[8 * band + SEQUENCES * PITCH + PITCH] = sums[band][3];
        }
        multiply_tiles<TILE + 1>(shared, weights);
    }
}

// As in grid_exact.cuh.
__device__ __forceinline__ void multiply(Memory& shared, const Weights& weights, const float* slot,
                                         float (&first)[OWN], float (&second)[OWN]) {
    const uint4* from = reinterpret_cast<const uint4*>(slot) + threadIdx.x / 32 * PARTS * 32 + threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
        for (int p = 0; p < PARTS; ++p)
            copy16(&shared.values[tile][p][threadIdx.x], from + (tile * ALL_PARTS + p) * 32);
        commit();
    }
    multiply_tiles<0>(shared, weights);
    __syncthreads();
    add_up<PITCH>(shared.sums, first, second);
}
