// A cluster of CLUSTER blocks shares the rows of R. Each block holds BAND rows and needs the values of all neurons, so
// it sends the results of each step to every block of the cluster through distributed shared memory.
//
// A cluster computes SETS sets of ROWS sequences. The sets take turns: the results of one are sent while the other
// computes.
//
// Values are stored at [quad of neurons][sequence][4], so that the 32 results of a warp are 128 consecutive bytes.
// Neighbouring lanes load different sequences of different quads, which are in different banks. A message is a store
// that counts its bytes on the receiver's barrier: no acknowledgement is needed, and one wait per step is the only
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

// A tile of W or U, or of a transpose. Above 256 neurons the first HELD quads of columns are in registers, and each
// thread has the others in shared memory. Both products then use the multipliers and shared memory at the same time,
// which they would not with all weights in one of the two. Each kernel holds as many quads as it has registers for, at
// least half.
constexpr bool STORED = SIZE > 256;
constexpr unsigned QUAD_BYTES = TILE * THREADS * sizeof(float4);
constexpr unsigned STORED_BYTES = STORED * QUADS * QUAD_BYTES;
template <int HELD>
struct SplitWeights {
    float held[TILE][4 * HELD];
    float4 (*stored)[TILE][THREADS];  // [QUADS - HELD]

    // `before` is the number of quads stored before these.
    __device__ explicit SplitWeights(int before)
        : stored(reinterpret_cast<float4(*)[TILE][THREADS]>(memory + before * QUAD_BYTES)) {}
};
template <int HELD>
__device__ __forceinline__ void put(SplitWeights<HELD>& weights, int j, int column, float weight) {
    if (column < 4 * HELD) weights.held[j][column] = weight;
    else reinterpret_cast<float*>(&weights.stored[column / 4 - HELD][j][threadIdx.x])[column % 4] = weight;
}
template <int HELD>
__device__ __forceinline__ void put(SplitWeights<HELD>& weights, const Weights& whole) {
#pragma unroll
    for (int j = 0; j < TILE; ++j)
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) put(weights, j, column, whole[j][column]);
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

// A phase of a barrier ends after one call of this function and the arrival of `bytes` bytes.
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

// Keeps a lane's constant in a register: computing it again in every step takes ten instructions, and the number of
// instructions limits the speed. Where registers are scarce it may be computed again.
__device__ __forceinline__ void keep(unsigned& value) {
    if (!STORED) value = hidden_origin(value);
}

// The address of a lane's value of step n in a tensor: `first` is the index of step 0, and a step has `bytes` bytes,
// fewer than 2^32. Where registers are not SCARCE this is one multiply-add. The compiler must not see that n is the same
// in several calls: it would make n * bytes a 64-bit variable of the loop.
template <bool SCARCE>
struct Steps {
    long long first;
    unsigned bytes;

    template <typename T>
    __device__ __forceinline__ T* operator()(T* tensor, unsigned n) const {
        typedef unsigned long long Offset;
        if (STORED && SCARCE) return reinterpret_cast<T*>(moved(tensor, first * sizeof(float) + (Offset)n * bytes));
        unsigned length = bytes;
        asm("" : "+r"(n), "+r"(length));
        return reinterpret_cast<T*>(moved(tensor + first, (Offset)n * length));
    }
    __device__ static __forceinline__ char* moved(float* p, long long by) { return (char*)p + by; }
    __device__ static __forceinline__ const char* moved(const float* p, long long by) { return (const char*)p + by; }
};

// Sends the results of a warp: 8 pieces of 16 bytes, each to every block, four blocks at a time.
struct Messenger {
    unsigned block[REMOTE];  // offset of an address in the blocks that this lane sends to
    unsigned piece[REMOTE];  // the same, plus the offset of the piece in a buffer
    unsigned source[4];      // the lanes that have the piece's values
    static constexpr int STRIDE = 32 / TILE;

    __device__ Messenger(unsigned base, int first, const Place& place) {
        const int part = place.lane % 8 % SHARE, quad = place.lane % 8 / SHARE;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            source[i] = quad % (TILE / 4) * 4 * STRIDE + part * GROUPS + quad / (TILE / 4) + i * STRIDE;
            keep(source[i]);
        }
        const int first_quad = (first + threadIdx.x / 32 * GROUPS * TILE) / 4;
        const unsigned offset = ((first_quad + quad) * ROWS + part) * sizeof(float4);
#pragma unroll
        for (int i = 0; i < REMOTE; ++i) {
            block[i] = remote_address(base, place.lane / 8 + 4 * i) - base;
            piece[i] = block[i] + offset;
            keep(piece[i]);
        }
    }

    // `buffer` and `barrier` are addresses in this block.
    __device__ __forceinline__ void operator()(float found, unsigned buffer, unsigned barrier) const {
        float4 v;
        v.x = __shfl_sync(ALL, found, source[0]);
        v.y = __shfl_sync(ALL, found, source[1]);
        v.z = __shfl_sync(ALL, found, source[2]);
        v.w = __shfl_sync(ALL, found, source[3]);
#pragma unroll
        for (int i = 0; i < REMOTE; ++i) send(piece[i] + buffer, v, block[i] + barrier);
    }
};

// Reads a lane's values from a buffer.
struct Reader {
    // The offsets of a quad's sequences differ in separate bits, so that all follow from one: one more instruction per
    // load, but fewer registers.
    static constexpr bool FROM_ONE = STORED && !SPANS;
    static constexpr int KEPT = FROM_ONE ? 1 : ROWS;
    unsigned lane[KEPT];

    __device__ explicit Reader(const Place& place) {
#pragma unroll
        for (int r = 0; r < KEPT; ++r) {
            lane[r] = (place.quad(0) * ROWS + place.sequence(r)) * sizeof(float4);
            keep(lane[r]);
        }
    }
    // `buffer` is an address, the same for all lanes, so that the addition is part of the load instruction.
    __device__ __forceinline__ float4 operator()(unsigned buffer, int q, int r) const {
        const unsigned own = FROM_ONE ? lane[0] ^ r * (unsigned)sizeof(float4) : lane[r % KEPT];
        const unsigned from = buffer + own + q * LANES * ROWS * sizeof(float4);
        float4 v;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from));
        return v;
    }
};

// sums += w * v, for one quad of columns and the sequences from `first` on.
template <int COUNT>
__device__ __forceinline__ void add_row(float (&sums)[ROWS], int first, const float4& w, const float4 (&v)[COUNT]) {
#pragma unroll
    for (int r = 0; r < COUNT; ++r) {
        float& sum = sums[first + r];
        sum = fmaf(w.w, v[r].w, fmaf(w.z, v[r].z, fmaf(w.y, v[r].y, fmaf(w.x, v[r].x, sum))));
    }
}

// Where registers are SCARCE, values are not loaded far ahead.
template <bool SCARCE, int HELD>
__device__ __forceinline__ void product(
    Sums& sums, const SplitWeights<HELD>& weights, unsigned buffer, const Reader& values) {
    constexpr bool TIGHT = STORED && SCARCE;
    constexpr int TOGETHER = TIGHT ? ROWS / 2 : ROWS;
    const auto add_stored = [&](int q) {
#pragma unroll
        for (int first = 0; first < ROWS; first += TOGETHER) {
            float4 v[TOGETHER];
#pragma unroll
            for (int r = 0; r < TOGETHER; ++r) v[r] = values(buffer, HELD + q, first + r);
#pragma unroll
            for (int j = 0; j < TILE; ++j) add_row(sums[j], first, weights.stored[q][j][threadIdx.x], v);
        }
    };
#pragma unroll
    for (int q = 0; q < max(HELD, QUADS - HELD); ++q) {
#pragma unroll
        for (int r = 0; r < (q < HELD ? ROWS : 0); ++r) {
            const float4 v = values(buffer, q, r);
            const float elements[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int j = 0; j < TILE; ++j) sums[j][r] = fmaf(weights.held[j][4 * q + e], elements[e], sums[j][r]);
        }
        if (!TIGHT && q < QUADS - HELD) add_stored(q);
    }
    if (TIGHT) {
#pragma unroll 1
        for (int q = 0; q < QUADS - HELD; ++q) add_stored(q);
    }
}

// The number of steps of the longest sequence of this cluster.
__device__ __forceinline__ int longest(const long long* lengths, long long steps, long long first, long long batch) {
    if (!lengths) return steps;
    long long end = 0;
    for (int r = 0; r < SETS * ROWS; ++r)
        if (first + r < batch) end = max(end, min(steps, lengths[first + r]));
    return end;
}
