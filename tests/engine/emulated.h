// Enough of a GPU to run the tensor core kernels on a CPU, one thread after the other: a block of threads with barriers,
// copies that arrive only when they are waited for, and a warp's multiply-add. It stands in for tensor_core.cuh.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>
#include <ucontext.h>

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

using std::max;
using std::min;

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct Index { int x; };
Index threadIdx, blockIdx;
alignas(16) unsigned char dynamic[1 << 17];

constexpr int PACK = BF16 ? 2 : 1;

enum State { RUNS, AT_MULTIPLY, AT_BARRIER, DONE };

struct Copy { void* to; const float* from; int bytes; bool wanted; };

struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    State state;
    float* sum;
    const unsigned* a;
    unsigned b[2];
    std::deque<std::vector<Copy>> groups;
    std::vector<Copy> asked;
};

std::vector<Thread> threads;
ucontext_t scheduler;
std::function<void()> kernel;

inline void pause(State state) {
    Thread& self = threads[threadIdx.x];
    self.state = state;
    swapcontext(&self.context, &scheduler);
}

inline void __syncthreads() { pause(AT_BARRIER); }

inline float value_of(unsigned word, int half) {
    const unsigned bits = PACK == 2 ? (half ? word & 0xffff0000u : word << 16) : word & 0xffffe000u;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline unsigned rounded(const float* v) {
    unsigned bits[2] = {0, 0};
    std::memcpy(bits, v, 4 * PACK);
    if (PACK == 1) return (bits[0] + 0x1000u) & 0xffffe000u;
    for (unsigned& b : bits) b = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
    return bits[0] | bits[1] << 16;
}

inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    Thread& self = threads[threadIdx.x];
    self.sum = sum, self.a = a, self.b[0] = b0, self.b[1] = b1;
    pause(AT_MULTIPLY);
}

// By the tables of the PTX manual for m16n8k8 with tf32 and m16n8k16 with bf16, element by element.
inline void multiply(Thread* lanes) {
    constexpr int K = 8 * PACK;
    double A[16][K], B[K][8];
    for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, inside = lane % 4;
        for (int i = 0; i < 4 * PACK; ++i) {
            int row, col;
            if (PACK == 1) {
                row = i == 0 || i == 2 ? group : group + 8;
                col = i < 2 ? inside : inside + 4;
            } else {
                row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
                col = inside * 2 + (i & 1) + (i < 4 ? 0 : 8);
            }
            A[row][col] = value_of(lanes[lane].a[i / PACK], i % PACK);
        }
        for (int i = 0; i < 2 * PACK; ++i) {
            const int row = PACK == 1 ? inside + 4 * i : inside * 2 + (i & 1) + (i < 2 ? 0 : 8);
            B[row][group] = value_of(lanes[lane].b[i / PACK], i % PACK);
        }
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, col = lane % 4 * 2 + (i & 1);
            double total = lanes[lane].sum[i];
            for (int k = 0; k < K; ++k) total += A[row][k] * B[k][col];
            lanes[lane].sum[i] = (float)total;
        }
}

template <int BYTES>
inline void copy_ahead(void* to, const float* from, bool wanted) {
    threads[threadIdx.x].asked.push_back({to, from, BYTES, wanted});
}

inline void commit() {
    Thread& self = threads[threadIdx.x];
    self.groups.push_back(std::move(self.asked));
    self.asked.clear();
}

template <int LEFT>
inline void wait() {
    Thread& self = threads[threadIdx.x];
    for (; (int)self.groups.size() > LEFT; self.groups.pop_front())
        for (const Copy& copy : self.groups.front()) {
            if (copy.wanted && (size_t)copy.from % copy.bytes) std::printf("a copy is not aligned\n"), std::abort();
            if (copy.wanted) std::memcpy(copy.to, copy.from, copy.bytes);
            else std::memset(copy.to, 0, copy.bytes);
        }
}

inline void start() {
    kernel();
    pause(DONE);
}

// Every warp goes from one multiply-add to the next together, and every block from one barrier to the next.
inline void run_blocks(int blocks, int count, std::function<void()> body) {
    kernel = std::move(body);
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (size_t i = 0; i < sizeof dynamic; i += 4) std::memcpy(dynamic + i, "\xff\xff\xff\x7f", 4);
        threads = std::vector<Thread>(count);
        for (Thread& thread : threads) {
            thread.stack.resize(1 << 16);
            thread.state = RUNS;
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = thread.stack.data();
            thread.context.uc_stack.ss_size = thread.stack.size();
            thread.context.uc_link = nullptr;
            makecontext(&thread.context, start, 0);
        }
        while (true) {
            for (int first = 0; first < count; first += 32) {
                Thread* lanes = &threads[first];
                while (true) {
                    for (int lane = 0; lane < 32; ++lane) {
                        threadIdx.x = first + lane;
                        if (lanes[lane].state == RUNS) swapcontext(&scheduler, &lanes[lane].context);
                    }
                    for (int lane = 1; lane < 32; ++lane)
                        if (lanes[lane].state != lanes[0].state) std::printf("lanes diverge\n"), std::abort();
                    if (lanes[0].state != AT_MULTIPLY) break;
                    multiply(lanes);
                    for (int lane = 0; lane < 32; ++lane) lanes[lane].state = RUNS;
                }
            }
            for (const Thread& thread : threads)
                if (thread.state != threads[0].state) std::printf("threads diverge\n"), std::abort();
            if (threads[0].state == DONE) break;
            for (Thread& thread : threads) thread.state = RUNS;
        }
    }
}
