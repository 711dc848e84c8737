// Shared by both passes of LEM. A block has one sequence and four threads per neuron, one per gate. A thread has one
// row of one matrix: as much as fits in registers, the rest in shared memory, with the weights of a warp side by side.
//
// SIZE: padded number of neurons. HELD: number of a thread's weights in registers. Both are multiples of 4.
#pragma once
#define ACTIVATION TANH
#include "activation.cuh"

// d1, d2, and the candidates of z and y: the order of the weights.
enum Gate { PACE_OF_Y, PACE_OF_Z, OF_Z, OF_Y };
constexpr int GATES = 4;
constexpr int THREADS = GATES * SIZE;
static_assert(SIZE % 32 == 0 && HELD % 4 == 0 && HELD <= SIZE, "a warp is of one gate, and weights go by fours");

struct Row {
    float held[HELD];
    float4* rest;

    // `first` points to the weight of value 0 of the vector, and `stride` is the distance to the next. Weights beyond
    // `size` are 0, and all weights of a thread of the padding are.
    __device__ Row(const float* first, long long stride, int size, bool taken, float4* room)
        : rest(room + threadIdx.x) {
#pragma unroll
        for (int k = 0; k < HELD; ++k) held[k] = taken && k < size ? first[k * stride] : 0.f;
        for (int k = HELD; k < SIZE; k += 4) {
            float four[4];
            for (int i = 0; i < 4; ++i) four[i] = taken && k + i < size ? first[(k + i) * stride] : 0.f;
            rest[(k - HELD) / 4 * THREADS] = make_float4(four[0], four[1], four[2], four[3]);
        }
    }

    // Four independent sums, since each addition to a single one would wait for the previous.
    __device__ __forceinline__ float times(const float* vector) const {
        float sums[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int k = 0; k < SIZE; k += 4) {
            const float4 v = *(const float4*)(vector + k);
            const int h = k % HELD;  // k itself, where it is in registers
            const float4 w = k < HELD ? make_float4(held[h], held[h + 1], held[h + 2], held[h + 3])
                                      : rest[(k - HELD) / 4 * THREADS];
            sums[0] = fmaf(w.x, v.x, sums[0]);
            sums[1] = fmaf(w.y, v.y, sums[1]);
            sums[2] = fmaf(w.z, v.z, sums[2]);
            sums[3] = fmaf(w.w, v.w, sums[3]);
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
};
