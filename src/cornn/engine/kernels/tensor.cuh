// A step on tensor cores: how matrices, states and sums are distributed over the lanes.
//
// A block computes ROWS sequences, 8 per tile. The weights are the left operand: a warp holds 16 rows of each matrix in
// registers for the whole sequence. The states (backward: delta) of a tile are the right operand, 8 columns, and are in
// shared memory, rounded when they are written. Sums and pointwise operations are in fp32.
//
// The order of the rows of A, and of the words over which the product sums, is free as long as both operands agree.
// Rows g and g + 8 of a warp are neurons 2 g and 2 g + 1, so that a lane has two neighbouring neurons: they are rounded
// into one word, and read and written together. Words t and t + 4 of two multiply-adds are words 4 t to 4 t + 3 of a
// vector, so that a lane fetches them in one load of 16 bytes.
#pragma once
#include "tensor_core.cuh"
#include "update.cuh"

static_assert(STATES == 2, "the tensor core kernels are those of two states");
static_assert(SIZE % 32 == 0 && ROWS % 8 == 0, "16 words of two bf16 values, 8 columns");

constexpr int TILES = ROWS / 8;
constexpr int THREADS = 2 * SIZE;
constexpr int OWN = 2 * TILES;  // sequences of which a lane updates two neurons
constexpr int WORDS = SIZE / PACK;
constexpr int PAIRS = WORDS / 16;   // pairs of multiply-adds in a product
constexpr int STRIDE = WORDS + 8;   // 8 or 24 banks from one vector to the next
constexpr int AHEAD = 4;            // steps by which values from device memory are requested early

typedef unsigned Matrix[PAIRS][2][4];
typedef unsigned Vectors[TILES][8][STRIDE];
typedef float Sums[TILES][2][4];  // two independent chains of multiply-adds
typedef float Pairs[OWN][2];      // the values of the lane's two neurons for each of its sequences

struct Place {
    int column, part, neuron;

    __device__ Place() {
        const int lane = threadIdx.x % 32;
        column = lane / 4;
        part = lane % 4;
        neuron = threadIdx.x / 32 * 16 + 2 * column;  // and the next
    }
    // A lane's sequences are pairs of neighbours, one pair per tile.
    __device__ static constexpr int step(int i) { return i / 2 * 8 + i % 2; }
    __device__ int sequence(int i) const { return 2 * part + step(i); }
};

// The position of a column's vector in its tile. With this STRIDE, a quarter of a warp that loads 16 bytes per lane
// (columns 2 i and 2 i + 1) and a half that stores 8 (columns of the same parity) access every bank once.
__device__ __forceinline__ int position(int column) {
    return column % 2 ? 4 + (column / 2 + 2) % 4 : column / 2;
}

__device__ __forceinline__ void publish(Vectors& vectors, const Place& place, int i, const float (&pair)[2]) {
    unsigned* to = &vectors[i / 2][position(2 * place.part + i % 2)][place.neuron / PACK];
    if (PACK == 2)
        *to = rounded(pair);
    else
        *reinterpret_cast<uint2*>(to) = make_uint2(rounded(&pair[0]), rounded(&pair[1]));
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[tile][0][e] = sums[tile][1][e] = 0.f;
}

__device__ __forceinline__ void product(Sums& sums, const Matrix& matrix, const Vectors& vectors, const Place& place) {
#pragma unroll
    for (int j = 0; j < PAIRS; ++j)
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            const uint4 v =
                *reinterpret_cast<const uint4*>(&vectors[tile][position(place.column)][16 * j + 4 * place.part]);
            multiply_add(sums[tile][0], matrix[j][0], v.x, v.y);
            multiply_add(sums[tile][1], matrix[j][1], v.z, v.w);
        }
}

// The result of a product for sequence i of this lane and one of its neurons.
__device__ __forceinline__ float total(const Sums& sums, int i, int neuron) {
    const int e = 2 * neuron + i % 2;
    return sums[i / 2][0][e] + sums[i / 2][1][e];
}

// Word `w` of the four of a lane in pair `j`, of its first or second row.
__device__ __forceinline__ void put(Matrix& matrix, int j, int w, int row, const float* values) {
    matrix[j][w / 2][w % 2 * 2 + row] = rounded(values);
}

// Four neighbouring values of a row; zero beyond its end.
__device__ __forceinline__ void load4(float* out, const float* row, int column, int size, bool aligned) {
    if (aligned) {
        float4 v = column < size ? *reinterpret_cast<const float4*>(row + column) : make_float4(0.f, 0.f, 0.f, 0.f);
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[e] = column + e < size ? row[column + e] : 0.f;
    }
}

__device__ __forceinline__ bool is_aligned(const void* pointer, int size) {
    return size % 4 == 0 && reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// The rows of [W, W_z]. With `dt` the second becomes W_z + W diag(dt).
__device__ __forceinline__ void load_forward(
    Matrix& w_y, Matrix& w_z, const float* weight, const float* dt, int size, const Place& place) {
    const bool aligned = is_aligned(weight, size);
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) {
        const int column = (16 * j + 4 * place.part) * PACK;
        float spans[4 * PACK] = {};
#pragma unroll
        for (int q = 0; q < PACK && dt; ++q) load4(spans + 4 * q, dt, column + 4 * q, size, is_aligned(dt, size));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float y[4 * PACK] = {}, z[4 * PACK] = {};
            if (place.neuron + r < size) {
                const float* line = weight + (long long)(place.neuron + r) * 2 * size;
#pragma unroll
                for (int q = 0; q < PACK; ++q) {
                    load4(y + 4 * q, line, column + 4 * q, size, aligned);
                    load4(z + 4 * q, line + size, column + 4 * q, size, aligned);
                }
            }
#pragma unroll
            for (int e = 0; e < 4 * PACK; ++e) z[e] = fmaf(y[e], spans[e], z[e]);
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                put(w_y, j, w, r, y + w * PACK);
                put(w_z, j, w, r, z + w * PACK);
            }
        }
    }
}

// Loads two neighbouring values, each only if its flag is set. WIDE: both flags are equal and the address is aligned.
__device__ __forceinline__ float2 load2(const float* from, bool first, bool second) {
    if (WIDE) return first ? *reinterpret_cast<const float2*>(from) : make_float2(0.f, 0.f);
    return make_float2(first ? from[0] : 0.f, second ? from[1] : 0.f);
}

__device__ __forceinline__ void store2(float* to, float one, float other, bool first, bool second) {
    if (WIDE) {
        if (first) *reinterpret_cast<float2*>(to) = make_float2(one, other);
    } else {
        if (first) to[0] = one;
        if (second) to[1] = other;
    }
}

// The rows of the transposes. With `dt` the second becomes that of W_z + W diag(dt).
__device__ __forceinline__ void load_backward(
    Matrix& w_y, Matrix& w_z, const float* weight, const float* dt, int size, const Place& place) {
    const bool first = place.neuron < size, second = place.neuron + 1 < size;
    const float spans[2] = {dt && first ? dt[place.neuron] : 0.f, dt && second ? dt[place.neuron + 1] : 0.f};
#pragma unroll
    for (int j = 0; j < PAIRS; ++j)
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            float y[2][PACK], z[2][PACK];
#pragma unroll
            for (int e = 0; e < PACK; ++e) {
                const int row = (16 * j + 4 * place.part + w) * PACK + e;
                const float* line = weight + (long long)row * 2 * size + place.neuron;
                const float2 from_y = load2(line, row < size && first, row < size && second);
                const float2 from_z = load2(line + size, row < size && first, row < size && second);
                y[0][e] = from_y.x, y[1][e] = from_y.y;
                z[0][e] = fmaf(from_y.x, spans[0], from_z.x), z[1][e] = fmaf(from_y.y, spans[1], from_z.y);
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                put(w_y, j, w, r, y[r]);
                put(w_z, j, w, r, z[r]);
            }
        }
}

// Values from device memory that a step will need, requested early into shared memory; each thread has its own.
template <int FIELDS>
struct Ahead {
    float2 values[AHEAD][FIELDS][OWN][THREADS];

    __device__ __forceinline__ float2 get(int slot, int field, int i) const {
        return values[slot][field][i][threadIdx.x];
    }
    __device__ __forceinline__ void ask(int slot, int field, int i, const float* from, bool first, bool second) {
        float* to = &values[slot][field][i][threadIdx.x].x;
        if (WIDE) {
            copy_ahead<8>(to, from, first);
        } else {
            copy_ahead<4>(to, from, first);
            copy_ahead<4>(to + 1, from + 1, second);
        }
    }
    // One value for both neurons.
    __device__ __forceinline__ void ask_one(int slot, int field, int i, const float* from, bool wanted) {
        copy_ahead<4>(&values[slot][field][i][threadIdx.x].x, from, wanted);
    }
};

// The sequences of a block, and of a lane.
struct Share {
    long long group, first, row;  // model, the block's first sequence in it, the lane's first sequence in all
    int end;                      // steps of the longest sequence of the block
    int length[OWN];              // steps of each sequence of the lane
    bool one[OWN], other[OWN];    // whether the sequence and the first, the second neuron exist

    __device__ Share(const Place& place, const long long* lengths, long long steps, long long batch, int size) {
        const long long blocks = (batch + ROWS - 1) / ROWS;
        group = blockIdx.x / blocks, first = blockIdx.x % blocks * ROWS;
        row = group * batch + first + place.sequence(0);
        end = lengths ? 0 : (int)steps;
        for (int r = 0; r < ROWS && lengths; ++r)
            if (first + r < batch) end = (int)max((long long)end, min(steps, lengths[group * batch + first + r]));
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const bool inside = first + place.sequence(i) < batch;
            length[i] = (int)(lengths && inside ? min(steps, lengths[row + Place::step(i)]) : steps);
            one[i] = inside && place.neuron < size;
            other[i] = inside && place.neuron + 1 < size;
        }
    }
};
