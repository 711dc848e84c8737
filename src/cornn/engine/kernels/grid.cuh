// A grid of blocks shares the rows of R, for layers that do not fit into one cluster. A block holds the rows of ROWS
// neurons of two square matrices for the whole sequence and computes SEQUENCES sequences; blocks with the same
// sequences exchange one value per neuron and step through device memory, which stays in the L2 cache.
//
// Both matrices multiply the same values, which are therefore read once. In the forward pass the matrices are W_z and
// W diag(dt) and the values are z: the second product updates the term W y of the pre-activation. In the backward pass
// they are the transposes of W_z and W, and the values are delta.
//
// grid_exact.cuh, grid_split.cuh and grid_tensor.cuh define where weights and values are stored and how they are
// multiplied.
//
// Values are stored in two slots that take turns: once all values of a step have been written, no block still reads
// those of the step before it.
#pragma once
#include "update.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int PAIRS = ROWS * SEQUENCES;               // a pair is a neuron of a sequence
constexpr int OWN = (PAIRS + THREADS - 1) / THREADS;  // pairs that a thread updates

extern __shared__ __align__(128) unsigned char memory[];

__device__ __forceinline__ void copy16(void* into, const void* from) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(into);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Adds up the sums of several warps, stored at [warp][matrix][sequence * PITCH + neuron]. `first` and `second` become
// the totals of this thread's pairs.
template <int PITCH, int COUNT, int PLACES>
__device__ __forceinline__ void add_up(const float (&sums)[COUNT][2][PLACES], float (&first)[OWN], float (&second)[OWN]) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int pair = threadIdx.x + i * THREADS;
        first[i] = second[i] = 0.f;
        if (PAIRS % THREADS && pair >= PAIRS) continue;
        const int at = pair / ROWS * PITCH + pair % ROWS;
#pragma unroll
        for (int s = 0; s < COUNT; ++s) first[i] += sums[s][0][at], second[i] += sums[s][1][at];
    }
}

// Calls `put` with four neighbouring columns of a row at a time; `at` returns an entry of the first or second matrix.
// Neighbouring threads read neighbouring columns, or with BY_ROWS neighbouring rows.
template <bool BY_ROWS, int QUADS, typename At, typename Put>
__device__ __forceinline__ void for_each_quad(const At& at, const Put& put) {
    for (int i = threadIdx.x; i < 2 * ROWS * QUADS; i += THREADS) {
        const int quad = BY_ROWS ? i / (2 * ROWS) : i % QUADS, row = BY_ROWS ? i % ROWS : i / QUADS % ROWS;
        const int second = BY_ROWS ? i / ROWS % 2 : i / (QUADS * ROWS);
        put(quad, second, row,
            make_float4(at(second, row, 4 * quad), at(second, row, 4 * quad + 1), at(second, row, 4 * quad + 2),
                        at(second, row, 4 * quad + 3)));
    }
}

// The rounding error of values published in fp32: none.
struct NoResidue {
    __device__ __forceinline__ void rescale(float, float) {}
};

// Publishes a value in fp32, at [quad of neurons][sequence][4].
__device__ __forceinline__ void store(float* slot, int neuron, int sequence, float value, NoResidue&) {
    slot[(neuron / 4 * SEQUENCES + sequence) * 4 + neuron % 4] = value;
}

#if TENSOR
#include "grid_tensor.cuh"
#elif SPLIT
#include "grid_split.cuh"
#else
#include "grid_exact.cuh"
#endif

// The sequences and neurons of a block, and the synchronisation of the blocks with the same sequences.
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
    // Announces that this block's values are written.
    __device__ __forceinline__ void publish() {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        }
    }
    // Waits until the values of all blocks are written.
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

// The pairs of a thread.
struct Pairs {
    int length[OWN];      // steps of the sequence; -1 if the pair does not exist
    int own[OWN];         // index among the values of a step, which are fewer than 2^30

    __device__ Pairs(const Team& team, const long long* lengths, long long steps, long long group, long long batch,
                     long long hidden) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const long long row = team.first + sequence(i);
            const bool there = threadIdx.x + i * THREADS < PAIRS && neuron(team, i) < hidden && row < batch;
            own[i] = (int)((group * batch + row) * hidden) + neuron(team, i);
            length[i] = there ? (int)(lengths ? max(min(lengths[group * batch + row], steps), 0ll) : steps) : -1;
        }
    }
    // Prevents the compiler from storing the address of every array for every pair.
    __device__ __forceinline__ void hide() {
#pragma unroll
        for (int i = 0; i < OWN; ++i) asm volatile("" : "+r"(own[i]));
    }
    __device__ __forceinline__ bool valid(int i) const { return length[i] >= 0; }
    __device__ __forceinline__ static int sequence(int i) { return (int)(threadIdx.x + i * THREADS) / ROWS; }
    __device__ __forceinline__ static int neuron(const Team& team, int i) {
        return team.first_neuron + (int)(threadIdx.x + i * THREADS) % ROWS;
    }
};

__device__ __forceinline__ int longest(const long long* lengths, long long steps, long long first, long long batch) {
    if (!lengths) return (int)steps;
    long long most = 0;
    for (long long i = first; i < min(first + SEQUENCES, batch); ++i) most = max(most, min(lengths[i], steps));
    return (int)most;
}
