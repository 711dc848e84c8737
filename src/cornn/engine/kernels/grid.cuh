// A grid of blocks shares the rows of R, for layers that do not fit on one cluster. A block holds ROWS neurons' rows of
// two square matrices in its shared memory for the whole sequence and serves SEQUENCES sequences; the blocks that serve
// the same sequences exchange one value per neuron and step through device memory, which stays in the L2 cache.
//
// Both matrices multiply the same values, so that they are read once. Forward they are W_z and W diag(dt), and the
// values are z: what W y adds to the pre-activation is kept up to date by the second product. Backward they are the
// transposes of W_z and W, and the values are delta.
//
// SLICES parts of the columns belong to two warps each, one for each matrix, which read the values of their part through
// STAGES small buffers of their own. Only the sum over the parts needs the whole block.
//
// Values lie at [quad of neurons][sequence][4] in device memory, in two slots that take turns: who has seen the values of
// a step complete knows that the step before it is no longer read.
#pragma once
#include "update.cuh"

constexpr int SLICES = 4, STAGES = 3;
constexpr int CHUNK = 4;  // quads of neurons in a stage
constexpr int THREADS = 64 * SLICES;
constexpr int QUADS = SIZE / 4;
constexpr int CHUNKS = QUADS / (SLICES * CHUNK);
constexpr int TILE = ROWS / 4, WIDTH = SEQUENCES / 4;  // neurons and sequences of a thread's sums
constexpr int PAIRS = ROWS * SEQUENCES;                 // a pair is a neuron of a sequence
constexpr int OWN = (PAIRS + THREADS - 1) / THREADS;    // pairs that a thread updates
constexpr int SLOT = SIZE * SEQUENCES;                  // values of a slot

static_assert(SIZE % (4 * SLICES * CHUNK) == 0, "every part of the columns has whole chunks");
static_assert(ROWS % 8 == 0 && SEQUENCES % 4 == 0, "every thread has as many sums");

struct Memory {
    float4 weights[QUADS][2][ROWS];
    union {
        float4 values[SLICES][STAGES][CHUNK * SEQUENCES];
        float sums[SLICES][2][PAIRS];
    };
};
extern __shared__ __align__(128) unsigned char memory[];

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

__device__ __forceinline__ void copy16(void* into, const void* from) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(into);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// The two warps of a part of the columns.
__device__ __forceinline__ void pair_barrier(int slice) {
    asm volatile("bar.sync %0, 64;" ::"r"(slice + 1) : "memory");
}

// Both products of this block's rows with the values of a slot. `first` and `second` are those of this thread's pairs.
__device__ __forceinline__ void multiply(
    Memory& shared, const float* slot, const Place& place, float (&first)[OWN], float (&second)[OWN]) {
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
        const float4* weights = &shared.weights[(place.slice * CHUNKS + c) * CHUNK][place.matrix][place.row];
#pragma unroll
        for (int i = 0; i < CHUNK / 2; ++i) {
            const int quad = 2 * i + place.half;
            float4 v[WIDTH];
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) v[j] = values[quad * SEQUENCES + 4 * j];
#pragma unroll
            for (int r = 0; r < TILE; ++r) {
                const float4 w = weights[quad * 2 * ROWS + 4 * r];
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
    __syncthreads();  // the sums lie where the values were

    // The two halves of a warp have added up different quads: each keeps half of the neurons.
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
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int pair = threadIdx.x + i * THREADS;
        first[i] = second[i] = 0.f;
        if (PAIRS % THREADS && pair >= PAIRS) continue;
#pragma unroll
        for (int s = 0; s < SLICES; ++s) first[i] += shared.sums[s][0][pair], second[i] += shared.sums[s][1][pair];
    }
}

// Which sequences a block serves, which neurons it holds, and how the blocks of the same sequences meet.
struct Team {
    unsigned* counter;
    float* slots;
    unsigned bands, seen = 0;
    int first_neuron;
    long long first;

    __device__ Team(float* values, unsigned* counters, long long hidden, long long begin) {
        bands = (unsigned)((hidden + ROWS - 1) / ROWS);
        const unsigned team = blockIdx.x / bands;
        first_neuron = blockIdx.x % bands * ROWS;
        first = begin + team * SEQUENCES;
        counter = counters + 32 * team;
        slots = values + 2ll * SLOT * team;
    }
    __device__ __forceinline__ float* slot(int n) const { return slots + (n & 1) * SLOT; }
    // Where a value of a slot lies.
    __device__ __forceinline__ int position(int neuron, int sequence) const {
        return (neuron / 4 * SEQUENCES + sequence) * 4 + neuron % 4;
    }
    // This block's values are written.
    __device__ __forceinline__ void publish() {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        }
    }
    // All blocks' values are written.
    __device__ __forceinline__ void await() {
        seen += bands;
        if (threadIdx.x % 32 == 0) {
            unsigned count;
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
            while ((int)(count - seen) < 0);
        }
        __syncwarp();
    }
};

__device__ __forceinline__ int longest(const long long* lengths, long long steps, long long first, long long batch) {
    if (!lengths) return (int)steps;
    long long most = 0;
    for (long long i = first; i < min(first + SEQUENCES, batch); ++i) most = max(most, min(lengths[i], steps));
    return (int)most;
}
