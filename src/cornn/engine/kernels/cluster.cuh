// A cluster of CLUSTER blocks shares the rows of R: each block holds BAND of them and needs all neurons' values, so
// that what a block finds in a step goes to every block of the cluster through distributed shared memory.
//
// A value lies at [quad of neurons][sequence, swizzled][4]: what a warp finds, 32 values, is then 128 bytes in a row,
// and a lane's 16-byte load of one sequence meets no bank conflict. A message is a store that counts its own bytes on
// the receiver's barrier, so that receiving needs no acknowledgement and one wait a step is all the synchronisation.
#pragma once
#include "tile.cuh"

constexpr int ALL_QUADS = SIZE / 4;
constexpr int SLOTS = ALL_QUADS * ROWS / THREADS;  // 16-byte slots of a buffer that a thread may call its own
constexpr int REMOTE = CLUSTER / 4;                // blocks that a lane sends to

static_assert(ROWS == SHARE, "a lane owns one sequence");
static_assert(GROUPS * TILE * ROWS == 32 && ALL_QUADS * ROWS % THREADS == 0 && CLUSTER % 4 == 0, "whole messages");

typedef float4 Buffer[ALL_QUADS][ROWS];
constexpr int BYTES = sizeof(Buffer);

__device__ __forceinline__ int swizzle(int quad, int sequence) { return sequence ^ (quad * ROWS / 8 % ROWS); }

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

// One phase of a barrier ends when this was called once and BYTES bytes have come.
__device__ __forceinline__ void barrier_expect(unsigned barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(BYTES) : "memory");
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

// What a warp sends: each of its 8 pieces of 16 bytes goes to every block, four blocks at a time.
struct Messenger {
    unsigned remote[REMOTE];  // where this block's shared memory begins in the blocks that this lane sends to
    unsigned offset;          // of the piece in a buffer
    int source;               // the lane that has the piece's first value; the others are 8 lanes apart

    __device__ Messenger(unsigned memory, int first, const Place& place) {
        const int piece = place.lane % 8;
        const int quad = (first + threadIdx.x / 32 * GROUPS * TILE) / 4 + piece / ROWS;
        source = swizzle(quad, piece % ROWS) * GROUPS + piece / ROWS;
        offset = (quad * ROWS + piece % ROWS) * sizeof(float4);
#pragma unroll
        for (int i = 0; i < REMOTE; ++i) remote[i] = remote_address(memory, place.lane / 8 + 4 * i);
    }

    // `buffer` and `barrier` are offsets from the beginning of shared memory.
    __device__ __forceinline__ void operator()(float found, unsigned buffer, unsigned barrier) const {
        float4 v;
        v.x = __shfl_sync(ALL, found, source);
        v.y = __shfl_sync(ALL, found, source + 8);
        v.z = __shfl_sync(ALL, found, source + 16);
        v.w = __shfl_sync(ALL, found, source + 24);
#pragma unroll
        for (int i = 0; i < REMOTE; ++i) send(remote[i] + buffer + offset, v, remote[i] + barrier);
    }
};

__device__ __forceinline__ void product(Sums& sums, const Weights& weights, const Buffer& values, const Place& place) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            // Slot r holds the lane's local sequence r: the swizzle of its quads is its `part`.
            accumulate(sums, weights, q, r, values[place.quad(q)][r]);
}

// The steps of the longest of this cluster's sequences.
__device__ __forceinline__ int longest(const long long* lengths, long long steps, long long first, long long batch) {
    if (!lengths) return steps;
    long long end = 0;
    for (int r = 0; r < ROWS; ++r)
        if (first + r < batch) end = max(end, min(steps, lengths[first + r]));
    return end;
}
