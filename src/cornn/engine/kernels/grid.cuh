// A grid of blocks shares the rows of R, for layers that do not fit on one cluster. A block holds ROWS neurons' rows of
// two square matrices for the whole sequence and serves SEQUENCES sequences; the blocks that serve the same sequences
// exchange one value per neuron and step through device memory, which stays in the L2 cache.
//
// Both matrices multiply the same values, so that they are read once. Forward they are W_z and W diag(dt), and the
// values are z: what W y adds to the pre-activation is kept up to date by the second product. Backward they are the
// transposes of W_z and W, and the values are delta.
//
// grid_exact.cuh and grid_tensor.cuh say where weights and values lie and how they are multiplied.
//
// Values lie in two slots that take turns: who has seen the values of a step complete knows that the step before it is no
// longer read.
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

#if TENSOR
#include "grid_tensor.cuh"
#else
#include "grid_exact.cuh"
#endif

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

// The pairs of a thread.
struct Pairs {
    bool valid[OWN];
    int length[OWN];      // steps of the sequence
    int own[OWN];         // place among the values of a step, of which there are fewer than 2^30

    __device__ Pairs(const Team& team, const long long* lengths, long long steps, long long group, long long batch,
                     long long hidden) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const long long row = team.first + sequence(i);
            valid[i] = threadIdx.x + i * THREADS < PAIRS && neuron(team, i) < hidden && row < batch;
            own[i] = (int)((group * batch + row) * hidden) + neuron(team, i);
            length[i] = valid[i] ? (int)(lengths ? min(lengths[group * batch + row], steps) : steps) : 0;
        }
    }
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
