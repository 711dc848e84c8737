// The products of a grid in the accuracy of fp32, on tensor cores (split.cuh). A block has the rows of both matrices in
// shared memory, in fp32. Each warp has a part of the columns: it loads weights and values of 16 columns, splits them,
// and multiplies; the first matrix is rows 0 to 7 of a multiply-add, the second rows 8 to 15. Then the sums of the
// warps are added up.
//
// Values are stored at [quad of neurons][sequence][4] in device memory. Lane 4 g + t loads quad t of the 16 columns;
// products sum over the words in the order of these loads.
#pragma once
#include "split.cuh"

constexpr int QUADS = SIZE / 4;
constexpr int TILES = SEQUENCES / 8, BANDS = ROWS / 8;  // multiply-adds along the sequences, along the neurons
constexpr int PARTS = SIZE / 16 / WARPS;                // of 16 columns, per warp
constexpr int SLOT = SIZE * SEQUENCES;                  // words of a slot
constexpr int PITCH = ROWS + 2;                         // so that at most two lanes write to the same bank
constexpr int SETS = WARPS / 2;                         // of sums: two warps share one
// Tiles whose products alternate, so that a multiply-add does not wait for the previous one.
constexpr int TURNS = BANDS < 6 ? 6 / BANDS : 1;
constexpr int AHEAD = TILES > 4 ? 3 : TILES;  // tiles whose values are loaded ahead, as far as registers allow

static_assert(SEQUENCES % 8 == 0 && ROWS % 8 == 0 && SIZE % (16 * WARPS) == 0, "whole multiply-adds");

struct Memory {
    float4 weights[QUADS][2][ROWS];
    float sums[SETS][2][SEQUENCES * PITCH];
};

// The position of a row of a quad: lanes that read together read from different banks.
__device__ __forceinline__ int swizzled(int quad, int row) { return row ^ quad % 4 * 2; }

struct Weights {};
typedef NoResidue Residue;

// As in grid_exact.cuh.
template <bool BY_ROWS, typename At>
__device__ __forceinline__ void load(Memory& shared, Weights&, const At& at) {
    for_each_quad<BY_ROWS, QUADS>(at, [&](int quad, int second, int row, float4 weights) {
        shared.weights[quad][second][swizzled(quad, row)] = weights;
    });
}

__device__ __forceinline__ float4 load_value(const float4* from) {
    float4 v;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
    return v;
}

// Writes this lane's sums, or adds them to the stored ones.
template <bool ADD>
__device__ __forceinline__ void put(float* to, const float (&sums)[TILES][BANDS][4]) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int band = 0; band < BANDS; ++band)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float& place = to[k / 2 * SEQUENCES * PITCH + (8 * tile + k % 2) * PITCH + 8 * band];
                place = ADD ? place + sums[tile][band][k] : sums[tile][band][k];
            }
}

// As in grid_exact.cuh.
__device__ __forceinline__ void multiply(Memory& shared, const Weights&, const float* slot, float (&first)[OWN],
                                         float (&second)[OWN]) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float4* from = reinterpret_cast<const float4*>(slot) + (warp * PARTS * 4 + t) * SEQUENCES + g;
    float4 values[TILES];
#pragma unroll
    for (int tile = 0; tile < AHEAD; ++tile) values[tile] = load_value(from + 8 * tile);
    float sums[TILES][BANDS][4] = {};
#pragma unroll 1
    for (int p = 0; p < PARTS; ++p) {
        unsigned held[BANDS][PIECES][4];
        const int quad = (warp * PARTS + p) * 4 + t;
#pragma unroll
        for (int band = 0; band < BANDS; ++band)
#pragma unroll
            for (int matrix = 0; matrix < 2; ++matrix) {
                const float4 w = shared.weights[quad][matrix][swizzled(t, 8 * band + g)];
                unsigned early[PIECES], late[PIECES];
                split(w.x, w.y, early), split(w.z, w.w, late);
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece)
                    held[band][piece][matrix] = early[piece], held[band][piece][2 + matrix] = late[piece];
            }
#pragma unroll
        for (int begin = 0; begin < TILES; begin += TURNS) {
            unsigned early[TURNS][PIECES], late[TURNS][PIECES];
            float found[TURNS][BANDS][4] = {};
#pragma unroll
            for (int i = 0; i < TURNS; ++i) {
                if (begin + i >= TILES) continue;
                const float4 v = values[begin + i];
                split(v.x, v.y, early[i]), split(v.z, v.w, late[i]);
                const int later = begin + i + AHEAD, tile = later % TILES;
                if (later < TILES || p + 1 < PARTS)
                    values[tile] = load_value(from + later / TILES * 4 * SEQUENCES + 8 * tile);
            }
#pragma unroll
            for (int n = 0; n < SPLIT_PRODUCTS; ++n)
#pragma unroll
                for (int i = 0; i < TURNS; ++i)
#pragma unroll
                    for (int band = 0; band < BANDS; ++band)
                        if (begin + i < TILES)
                            multiply_add(found[i][band], held[band][left_piece(n)], early[i][right_piece(n)],
                                         late[i][right_piece(n)]);
#pragma unroll
            for (int i = 0; i < TURNS; ++i)
#pragma unroll
                for (int band = 0; band < BANDS; ++band)
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        if (begin + i < TILES) sums[begin + i][band][k] += found[i][band][k];
        }
        from += 4 * SEQUENCES;
    }

    // The upper half of the warps writes its sums, then the lower half adds its own.
    float* mine = shared.sums[warp % SETS][0] + 2 * t * PITCH + g;
    if (warp >= SETS) put<false>(mine, sums);
    __syncthreads();
    if (warp < SETS) put<true>(mine, sums);
    __syncthreads();
    add_up<PITCH>(shared.sums, first, second);
}
