// The distribution of a matrix over the threads of a block, and its product with a vector.
//
// SIZE is the padded number of neurons. A thread holds TILE rows x COLUMNS columns of each square block of R in
// registers for the whole sequence. LANES threads of a warp share the same rows, so that a product ends with an
// exchange between lanes. Lanes that differ only in their low bits have other rows of the same columns, so that a
// 16-byte load from shared memory is a broadcast without bank conflicts.
//
// Local row j of a lane is row j ^ code of its group, where code is the lane's high bits, and its local sequence r is
// sequence r ^ (part * OWN): in the exchange each lane then keeps the first half of its sums and sends the second,
// without a selection.
#pragma once
#include "update.cuh"

// If SCALED is 1, a kernel also takes factors of the weights, which have the shapes of the weights.
#if SCALED
#define SCALE(name) , const float *name
#else
#define SCALED 0
#define SCALE(name)
constexpr const float* weight_scale = nullptr;
#endif

constexpr unsigned ALL = 0xffffffffu;
constexpr int LANES = SIZE <= 32 ? 2 : SIZE <= 64 ? 4 : SIZE <= 128 ? 8 : SIZE <= 256 ? 16 : 32;
constexpr int TILE = LANES < 8 ? LANES / 2 : SIZE <= 256 ? 4 : 8;
constexpr int TILE_BITS = TILE == 8 ? 3 : TILE == 4 ? 2 : TILE == 2 ? 1 : 0;
constexpr int COLUMNS = SIZE / LANES;
constexpr int QUADS = COLUMNS / 4;
constexpr int GROUPS = 32 / LANES;    // groups of TILE rows in a warp
constexpr int BAND = SIZE / CLUSTER;  // rows of each block of R that a thread block holds
constexpr int THREADS = BAND / TILE * LANES;
constexpr int SHARE = LANES / TILE;   // lanes that end up with the same row
constexpr int OWN = ROWS > SHARE ? ROWS / SHARE : 1;  // sequences whose neuron a lane updates

static_assert(SIZE % (4 * LANES) == 0, "a lane's columns come in 16-byte pieces");
static_assert(ROWS == 1 || ROWS % SHARE == 0, "a row's lanes divide the sequences evenly");

struct Place {
    int lane, column, part, group, code, neuron;

    // `first` is the first neuron of this block.
    __device__ explicit Place(int first) {
        lane = threadIdx.x % 32;
        const int raw = lane / GROUPS;
        // With 16 lanes or more, bits are exchanged so that lanes of the same part read quads from different banks
        // (cluster.cuh).
        column = LANES < 16 ? raw : (raw & ~7) | (raw & 3) << 1 | (raw >> 2 & 1);
        part = raw % SHARE;
        group = first + (threadIdx.x / 32 * GROUPS + lane % GROUPS) * TILE;
        code = lane >> (5 - TILE_BITS);
        neuron = group + code;
    }
    __device__ int row(int j) const { return group + (j ^ code); }
    __device__ int quad(int q) const { return column + LANES * q; }
    __device__ int sequence(int r) const { return ROWS == 1 ? 0 : r ^ (part * OWN); }
};

// Returns the value unchanged, but hides its origin from the assembler, which would otherwise compute a constant again
// in every step instead of keeping it in a register.
__device__ __forceinline__ unsigned hidden_origin(unsigned value) {
    return __float_as_uint(__shfl_xor_sync(ALL, __uint_as_float(value), 0));
}
// With several sequences there is no register for it.
__device__ __forceinline__ unsigned settled(unsigned value) { return ROWS > 1 ? value : hidden_origin(value); }
__device__ __forceinline__ long long settled(long long value) {
    const unsigned low = settled((unsigned)value), high = settled((unsigned)(value >> 32));
    return (long long)((unsigned long long)high << 32 | low);
}

typedef float Weights[TILE][COLUMNS];
typedef float Sums[TILE][ROWS];

// Devices before compute capability 8.0 have no asynchronous copies: a thread waits for each.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define COPIES_LATER 0
#else
#define COPIES_LATER 1
#endif

// Starts a copy of one number from device to shared memory. If not `wanted`, the result is 0 and the address is not
// read.
__device__ __forceinline__ void fetch(float* into, const float* from, bool wanted) {
#if COPIES_LATER
    const unsigned to = (unsigned)__cvta_generic_to_shared(into);
    const int bytes = wanted ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#else
    *into = wanted ? *from : 0.f;
#endif
}

// Values from device memory are requested AHEAD steps before they are needed, into shared memory; each thread has its
// own. Loads into registers would not work: the assembler gives all of them one scoreboard, so that waiting for the
// oldest would wait for the newest.
template <int FIELDS, int COUNT = OWN>
struct Ahead {
    static constexpr int AHEAD = 4;
    float values[AHEAD][FIELDS][COUNT][THREADS];

    __device__ __forceinline__ float get(int slot, int field, int i) const {
        return values[slot][field][i][threadIdx.x];
    }
    __device__ __forceinline__ void ask(int slot, int field, int i, const float* from, bool wanted) {
        fetch(&values[slot][field][i][threadIdx.x], from, wanted);
    }
    // To be called once per step, after its requests.
    __device__ static __forceinline__ void asked() {
#if COPIES_LATER
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    }
    // Waits for the values requested AHEAD steps ago; with LATER, for those requested LATER steps after them.
    template <int LATER = 0>
    __device__ static __forceinline__ void wait() {
#if COPIES_LATER
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1 - LATER) : "memory");
#endif
    }
};

// The same for values that all neurons of a sequence share: FIELDS consecutive numbers per sequence of the block, each
// fetched once by one thread. If every lane fetched its own, 32 copies from one address would take as long as copies
// from 32 addresses. Values fetched by another thread are complete after `wait` and a barrier, and a slot may be
// requested again after the barrier that follows the step that read it: one step later than a slot of `Ahead`.
template <int FIELDS>
struct AheadForAll {
    float values[Ahead<1>::AHEAD][ROWS][FIELDS];

    __device__ __forceinline__ float get(int slot, int sequence, int field) const {
        return values[slot][sequence][field];
    }
    // `from` is the address of this thread's number, which is `wanted` if its step and its sequence exist.
    __device__ __forceinline__ void ask(int slot, const float* from, bool wanted) {
        if (threadIdx.x < ROWS * FIELDS) fetch(&values[slot][0][0] + threadIdx.x, from, wanted);
    }
};

// Four neighbouring values of a row; zero beyond its end.
__device__ __forceinline__ void load4(float (&out)[4], const float* row, int column, int size, bool aligned) {
    if (aligned) {
        float4 v = column < size ? *reinterpret_cast<const float4*>(row + column) : make_float4(0.f, 0.f, 0.f, 0.f);
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[e] = column + e < size ? row[column + e] : 0.f;
    }
}

__device__ __forceinline__ void multiply4(float (&out)[4], const float* row, int column, int size, bool aligned) {
    float factors[4];
    load4(factors, row, column, size, aligned);
#pragma unroll
    for (int e = 0; e < 4; ++e) out[e] *= factors[e];
}

__device__ __forceinline__ bool is_aligned(const void* pointer, int size) {
    return size % 4 == 0 && reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

__device__ __forceinline__ void put(Weights& weights, int j, int column, float weight) { weights[j][column] = weight; }

// Offset of the second square block of R: to the right of the first for two states, below it for two products.
__device__ __forceinline__ int second_block(int size) { return STATES == 2 ? size : PRODUCTS == 2 ? size * size : 0; }

// Loads the forward tiles of the two blocks of R, such as [W, W_z], times their scale. With `dt` the second becomes
// W_z + W diag(dt). The first may have another type, with its own `put`.
template <typename First>
__device__ __forceinline__ void load_forward(
    First& w_y, Weights& w_z, const float* weight, const float* dt, int size, const Place& place,
    const float* scale = nullptr) {
    const bool aligned = is_aligned(weight, size) && is_aligned(scale, size);
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int column = 4 * place.quad(q);
        float spans[4] = {0.f, 0.f, 0.f, 0.f};
        if (dt) load4(spans, dt, column, size, is_aligned(dt, size));
#pragma unroll
        for (int j = 0; j < TILE; ++j) {
            const int row = place.row(j);
            float y[4] = {0.f, 0.f, 0.f, 0.f}, z[4] = {0.f, 0.f, 0.f, 0.f};
            if (row < size) {
                const float* line = weight + (long long)row * STATES * size;
                if (TWO_BLOCKS) load4(y, line, column, size, aligned);
                load4(z, line + second_block(size), column, size, aligned);
                if (SCALED) {
                    const float* factors = scale + (line - weight);
                    if (TWO_BLOCKS) multiply4(y, factors, column, size, aligned);
                    multiply4(z, factors + second_block(size), column, size, aligned);
                }
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                put(w_y, j, 4 * q + e, y[e]);
                w_z[j][4 * q + e] = fmaf(y[e], spans[e], z[e]);
            }
        }
    }
}

// Loads the tiles of the transposes, times their scale. With `dt` the second becomes that of W_z + W diag(dt).
template <typename First>
__device__ __forceinline__ void load_backward(
    First& w_y, Weights& w_z, const float* weight, const float* dt, int size, const Place& place,
    const float* scale = nullptr) {
    const bool aligned = TILE == 4 && is_aligned(weight, size) && is_aligned(scale, size);
    float spans[TILE];
#pragma unroll
    for (int j = 0; j < TILE; ++j) spans[j] = dt && place.row(j) < size ? dt[place.row(j)] : 0.f;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        const int column = 4 * place.quad(c / 4) + c % 4;
        const float* line = weight + (long long)column * STATES * size;
        float y[TILE], z[TILE];
#pragma unroll
        for (int j = 0; j < TILE; ++j) y[j] = z[j] = 0.f;
        if (column < size) {
            if (aligned) {
                float wide_y[4], wide_z[4];
                load4(wide_y, line, place.group, size, true);
                load4(wide_z, line + second_block(size), place.group, size, true);
                if (SCALED) {
                    const float* factors = scale + (line - weight);
                    multiply4(wide_y, factors, place.group, size, true);
                    multiply4(wide_z, factors + second_block(size), place.group, size, true);
                }
                const bool far = place.code & 2, near = place.code & 1;
#pragma unroll
                for (int j = 0; j < TILE; ++j) {
                    // Element j ^ code, without indexing registers at run time.
                    const int a = j % 4, b = a ^ 1, d = a ^ 2, f = a ^ 3;
                    y[j] = far ? (near ? wide_y[f] : wide_y[d]) : (near ? wide_y[b] : wide_y[a]);
                    z[j] = far ? (near ? wide_z[f] : wide_z[d]) : (near ? wide_z[b] : wide_z[a]);
                }
            } else {
#pragma unroll
                for (int j = 0; j < TILE; ++j) {
                    if (place.row(j) < size) y[j] = line[place.row(j)], z[j] = line[second_block(size) + place.row(j)];
                    if (SCALED && place.row(j) < size) {
                        const float* factors = scale + (line - weight) + place.row(j);
                        y[j] *= factors[0], z[j] *= factors[second_block(size)];
                    }
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TILE; ++j) {
            put(w_y, j, c, y[j]);
            w_z[j][c] = fmaf(y[j], spans[j], z[j]);
        }
    }
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int j = 0; j < TILE; ++j)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[j][r] = 0.f;
}

__device__ __forceinline__ void copy(Sums& to, const Sums& from) {
#pragma unroll
    for (int j = 0; j < TILE; ++j)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) to[j][r] = from[j][r];
}

// Prevents the compiler from moving the computation of `sums` past this point, where it would wait for other values
// first.
__device__ __forceinline__ void settle(Sums& sums) {
#pragma unroll
    for (int j = 0; j < TILE; ++j)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) asm volatile("" : "+f"(sums[j][r]));
}

__device__ __forceinline__ void accumulate(Sums& sums, const Weights& weights, int q, int r, const float4& v) {
#pragma unroll
    for (int j = 0; j < TILE; ++j) sums[j][r] = fmaf(weights[j][4 * q], v.x, sums[j][r]);
#pragma unroll
    for (int j = 0; j < TILE; ++j) sums[j][r] = fmaf(weights[j][4 * q + 1], v.y, sums[j][r]);
#pragma unroll
    for (int j = 0; j < TILE; ++j) sums[j][r] = fmaf(weights[j][4 * q + 2], v.z, sums[j][r]);
#pragma unroll
    for (int j = 0; j < TILE; ++j) sums[j][r] = fmaf(weights[j][4 * q + 3], v.w, sums[j][r]);
}

__device__ __forceinline__ void load_values(float4 (&values)[QUADS], const float* state, const Place& place) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) values[q] = *reinterpret_cast<const float4*>(state + 4 * place.quad(q));
}

// Adds up over the lanes of a row. In each lane, out[i] is then the sum for place.neuron and place.sequence(i).
__device__ __forceinline__ void reduce(float (&out)[OWN], Sums& sums) {
#pragma unroll
    for (int half = TILE / 2, mask = 16; half >= 1; half /= 2, mask /= 2)
#pragma unroll
        for (int j = 0; j < half; ++j)
#pragma unroll
            for (int r = 0; r < ROWS; ++r) sums[j][r] += __shfl_xor_sync(ALL, sums[j + half][r], mask);
    int half = ROWS / 2;
#pragma unroll
    for (int mask = 16 / TILE; mask >= GROUPS; mask /= 2, half /= 2) {
#pragma unroll
        for (int r = 0; r < (ROWS == 1 ? 1 : half); ++r)
            sums[0][r] += __shfl_xor_sync(ALL, sums[0][r + half], mask);
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) out[i] = sums[0][i];
}

// For one sequence: the same, and during the exchanges others += weights * values.
//
// The assembler would place the multiply-adds after the exchanges and leave the multipliers idle. So each exchange ends
// with a multiplication by a 1 that depends on some of the multiply-adds: `nothing` is 0, which the compiler cannot
// know.
__device__ __forceinline__ void reduce_over(float (&out)[OWN], Sums& sums, Sums& others, const Weights& weights,
                                            const float4 (&values)[QUADS], unsigned nothing) {
    int q = 0;
#pragma unroll
    for (int mask = 16, half = TILE / 2; mask >= GROUPS; mask /= 2, half /= 2) {
        float got[TILE];
#pragma unroll
        for (int j = 0; j < (half ? half : 1); ++j) got[j] = __shfl_xor_sync(ALL, sums[j + half][0], mask);
        if (q < QUADS) accumulate(others, weights, q, 0, values[q]);
        ++q;
        const float one = __uint_as_float((__float_as_uint(others[TILE - 1][0]) & nothing) | 0x3f800000u);
#pragma unroll
        for (int j = 0; j < (half ? half : 1); ++j) sums[j][0] = fmaf(got[j], one, sums[j][0]);
    }
#pragma unroll
    for (; q < QUADS; ++q) accumulate(others, weights, q, 0, values[q]);
    out[0] = sums[0][0];
}
