// A cluster of CLUSTER blocks shares the rows of R: each block holds BAND of them and needs all neurons' values, so
// that what a block finds in a step goes to every block of the cluster through distributed shared memory.
//
// A cluster serves SETS sets of ROWS sequences. The sets take turns: what one has found travels while the other computes.
//
// A value lies at [quad of neurons][sequence][4]: what a warp finds, 32 values, is then 128 bytes in a row. Lanes next to
// each other load different sequences of different quads, and so from different banks. A message is a store that counts
// its own bytes on the receiver's barrier, so that receiving needs no acknowledgement and one wait a step is all the
// synchronisation.
#pragma once
#include "tile.cuh"

constexpr int ALL_QUADS = SIZE / 4;
constexpr int REMOTE = CLUSTER / 4;  // blocks that a lane sends to

static_assert(ROWS == SHARE && OWN == 1, "a lane owns one sequence of a set");
static_assert(CLUSTER % 4 == 0, "whole messages");

typedef float4 Buffer[ALL_QUADS][ROWS];
constexpr unsigned BYTES = sizeof(Buffer);
extern __shared__ __align__(128) unsigned char memory[];

// The tiles of W, or of its transpose: in registers, or above 256 neurons in shared memory, each thread's own.
constexpr bool STORED = SIZE > 256;
constexpr unsigned STORED_BYTES = STORED * QUADS * TILE * THREADS * sizeof(float4);
struct FirstWeights {
    Weights held;
    float4 (*stored)[TILE][THREADS];  // [QUADS]
};
__device__ __forceinline__ void put(FirstWeights& weights, int j, int column, float weight) {
    if (!STORED) weights.held[j][column] = weight;
    else reinterpret_cast<float*>(&weights.stored[column / 4][j][threadIdx.x])[column % 4] = weight;
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The address of the same variable in another block of the cluster.
__device__ __forceinline__ unsigned remote_address(unsigned address, unsigned rank) {
    unsigned remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_init(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

// Makes the initialised barriers visible to the cluster; a cluster_barrier must follow.
__device__ __forceinline__ void barrier_publish() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One phase of a barrier ends when this was called once and so many bytes have come.
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void send(unsigned address, const float4& v, unsigned barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
        ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier) : "memory");
}

// Keeps a lane's constant in its register: the compiler would make it anew in every step, in ten instructions, where the
// step is bound by their number. Where registers are scarce it may.
__device__ __forceinline__ void keep(unsigned& value) {
    if (!STORED) asm("" : "+r"(value));
}

// What a warp sends: each of its 8 pieces of 16 bytes goes to every block, four blocks at a time.
struct Messenger {
    unsigned remote[REMOTE];  // where this block's buffers begin in the blocks that this lane sends to
    unsigned offset;          // of the piece in a buffer
    unsigned source[4];       // the lanes that have the piece's values
    static constexpr int STRIDE = 32 / TILE;

    __device__ Messenger(unsigned memory, int first, const Place& place) {
        const int part = place.lane % 8 % SHARE, quad = place.lane % 8 / SHARE;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            source[i] = quad % (TILE / 4) * 4 * STRIDE + part * GROUPS + quad / (TILE / 4) + i * STRIDE;
            keep(source[i]);
        }
        offset = (((first + threadIdx.x / 32 * GROUPS * TILE) / 4 + quad) * ROWS + part) * sizeof(float4);
#pragma unroll
        for (int i = 0; i < REMOTE; ++i) remote[i] = remote_address(memory, place.lane / 8 + 4 * i);
    }

    // `buffer` and `barrier` are offsets from the beginning of shared memory.
    __device__ __forceinline__ void operator()(float found, unsigned buffer, unsigned barrier) const {
        float4 v;
        v.x = __shfl_sync(ALL, found, source[0]);
        v.y = __shfl_sync(ALL, found, source[1]);
        v.z = __shfl_sync(ALL, found, source[2]);
        v.w = __shfl_sync(ALL, found, source[3]);
#pragma unroll
        for (int i = 0; i < REMOTE; ++i) send(remote[i] + buffer + offset, v, remote[i] + barrier);
    }
};

// Where a lane finds its values in a buffer, which is given by its offset from the end of the weights.
struct Reader {
    unsigned lane[ROWS];

    __device__ explicit Reader(const Place& place) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            lane[r] = (place.quad(0) * ROWS + place.sequence(r)) * sizeof(float4);
            keep(lane[r]);
        }
    }
    __device__ __forceinline__ float4 operator()(unsigned buffer, int q, int r) const {
        const unsigned char* from = memory + STORED_BYTES + (buffer + lane[r]) + q * LANES * ROWS * sizeof(float4);
        return *reinterpret_cast<const float4*>(from);
    }
};

__device__ __forceinline__ void product(Sums& sums, const Weights& weights, unsigned buffer, const Reader& values) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) accumulate(sums, weights, q, r, values(buffer, q, r));
}

__device__ __forceinline__ void product(
    Sums& sums, const FirstWeights& weights, unsigned buffer, const Reader& values) {
    if (!STORED) return product(sums, weights.held, buffer, values);
    // Registers are scarce, with spans even more: nothing is to be fetched far ahead.
    constexpr int TOGETHER = SPANS ? ROWS / 2 : ROWS;
#pragma unroll 1
    for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int first = 0; first < ROWS; first += TOGETHER) {
            float4 v[TOGETHER];
#pragma unroll
            for (int r = 0; r < TOGETHER; ++r) v[r] = values(buffer, q, first + r);
#pragma unroll
            for (int j = 0; j < TILE; ++j) {
                const float4 w = weights.stored[q][j][threadIdx.x];
#pragma unroll
                for (int r = 0; r < TOGETHER; ++r) {
                    float& sum = sums[j][first + r];
                    sum = fmaf(w.w, v[r].w, fmaf(w.z, v[r].z, fmaf(w.y, v[r].y, fmaf(w.x, v[r].x, sum))));
                }
            }
        }
}

// The steps of the longest of this cluster's sequences.
__device__ __forceinline__ int longest(const long long* lengths, long long steps, long long first, long long batch) {
    if (!lengths) return steps;
    long long end = 0;
    for (int r = 0; r < SETS * ROWS; ++r)
        if (first + r < batch) end = max(end, min(steps, lengths[first + r]));
    return end;
}
