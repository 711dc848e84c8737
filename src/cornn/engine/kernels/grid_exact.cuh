// The products of a grid in exact fp32. A block has the rows of both matrices in shared memory. The columns are divided
// into SLICES parts. Each part belongs to two warps, one per matrix, which read its values through STAGES small buffers
// of their own. Only the sum over the parts needs the whole block.
//
// Values are stored at [quad of neurons][sequence][4] in device memory.
#pragma once

constexpr int SLICES = 4, STAGES = 3;
constexpr int CHUNK = 4;  // quads of neurons in a stage
constexpr int QUADS = SIZE / 4;
constexpr int CHUNKS = QUADS / (SLICES * CHUNK);
constexpr int TILE = ROWS / 4, WIDTH = SEQUENCES / 4;  // neurons and sequences of a thread's sums
constexpr int SLOT = SIZE * SEQUENCES;                  // words of a slot

static_assert(WARPS == 2 * SLICES, "two warps for a part of the columns");
static_assert(SIZE % (4 * SLICES * CHUNK) == 0, "every part of the columns has whole chunks");
static_assert(ROWS % 8 == 0 && SEQUENCES % 4 == 0, "every thread has as many sums");

struct Memory {
    float4 weights[QUADS][2][ROWS];
    union {
        float4 values[SLICES][STAGES][CHUNK * SEQUENCES];
        float sums[SLICES][2][PAIRS];
    };
};

typedef float Sums[TILE][WIDTH];

struct Place {
    int lane, slice, matrix, half, row, sequence;

    __device__ Place() {
        const int warp = threadIdx.x / 32;
        lane = threadIdx.x % 32;
        slice = warp / 2, matrix = warp % 2;
        sequence = lane % 4, row = lane / 4 % 4, half = lane / 16;
    }
};

// The two warps of a part of the columns.
__device__ __forceinline__ void pair_barrier(int slice) {
    asm volatile("bar.sync %0, 64;" ::"r"(slice + 1) : "memory");
}

typedef NoResidue Residue;

struct Weights {
    Place place;
};

// Loads the rows of both matrices; `at` returns an entry.
template <bool BY_ROWS, typename At>
__device__ __forceinline__ void load(Memory& shared, Weights&, const At& at) {
    for_each_quad<BY_ROWS, QUADS>(at, [&](int quad, int second, int row, float4 weights) {
        shared.weights[quad][second][row] = weights;
    });
}

// Multiplies this block's rows of both matrices by the values of a slot. `first` and `second` become the results of
// this thread's pairs.
__device__ __forceinline__ void multiply(Memory& shared, const Weights& weights, const float* slot,
                                         float (&first)[OWN], float (&second)[OWN]) {
    const Place& place = weights.place;
    Sums sums;
#pragma unroll
    for (int r = 0; r < TILE; ++r)
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sums[r][j] = 0.f;

    float4(*stages)[CHUNK * SEQUENCES] = shared.values[place.slice];
    const float4* from = reinterpret_cast<const float4*>(slot) + place.slice * CHUNKS * CHUNK * SEQUENCES;
    auto fill = [&](int c) {
        if (c < CHUNKS) {
#pragma unroll
            for (int i = place.matrix * 32 + place.lane; i < CHUNK * SEQUENCES; i += 64)
                copy16(&stages[c % STAGES][i], from + c * CHUNK * SEQUENCES + i);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int c = 0; c < STAGES - 1; ++c) fill(c);
#pragma unroll 1
    for (int c = 0; c < CHUNKS; ++c) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        pair_barrier(place.slice);
        fill(c + STAGES - 1);
        const float4* values = stages[c % STAGES] + place.sequence;
        const float4* held = &shared.weights[(place.slice * CHUNKS + c) * CHUNK][place.matrix][place.row];
#pragma unroll
        for (int i = 0; i < CHUNK / 2; ++i) {
            const int quad = 2 * i + place.half;
            float4 v[WIDTH];
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) v[j] = values[quad * SEQUENCES + 4 * j];
#pragma unroll
            for (int r = 0; r < TILE; ++r) {
                const float4 w = held[quad * 2 * ROWS + 4 * r];
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) sums[r][j] = fmaf(w.x, v[j].x, sums[r][j]);
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) sums[r][j] = fmaf(w.y, v[j].y, sums[r][j]);
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) sums[r][j] = fmaf(w.z, v[j].z, sums[r][j]);
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) sums[r][j] = fmaf(w.w, v[j].w, sums[r][j]);
            }
        }
    }
    __syncthreads();  // the sums overwrite the values

    // The two halves of a warp have summed over different quads: each keeps half of the neurons.
    float* mine = shared.sums[place.slice][place.matrix] + place.sequence * ROWS + place.row + place.half * (ROWS / 2);
#pragma unroll
    for (int r = 0; r < TILE / 2; ++r)
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const float kept = place.half ? sums[r + TILE / 2][j] : sums[r][j];
            const float sent = place.half ? sums[r][j] : sums[r + TILE / 2][j];
            mine[4 * j * ROWS + 4 * r] = kept + __shfl_xor_sync(0xffffffffu, sent, 16);
        }
    __syncthreads();
    add_up<ROWS>(shared.sums, first, second);
}
