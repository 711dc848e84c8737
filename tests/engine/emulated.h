// Enough of a GPU to run the tensor core kernels on a CPU, one thread after the other: a block of threads with barriers,
// copies that arrive only when they are waited for, and a warp's multiply-add. It stands in for tensor_core.cuh.
#pragma once
#include <cstring>

// The C library's, without the header of C++, which takes longer to read than a kernel to compile.
extern "C" {
float copysignf(float, float);
float cosf(float);
float exp2f(float);
float expf(float);
float expm1f(float);
float fabsf(float);
float fmaf(float, float, float);
float fmaxf(float, float);
float sinf(float);
float sqrtf(float);
}

inline void sincospif(float x, float* sine, float* cosine) {
    *sine = (float)__builtin_sin(3.14159265358979323846 * x);
    *cosine = (float)__builtin_cos(3.14159265358979323846 * x);
}

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

template <class T> inline T max(T a, T b) { return a < b ? b : a; }
template <class T> inline T min(T a, T b) { return b < a ? b : a; }

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#include "emulated_threads.h"

constexpr int PACK = BF16 ? 2 : 1;

inline void __syncthreads() { pause(AT_BARRIER); }

inline unsigned rounded(const float* v) {
    unsigned bits[2] = {0, 0};
    std::memcpy(bits, v, 4 * PACK);
    if (PACK == 1) return (bits[0] + 0x1000u) & 0xffffe000u;
    for (unsigned& b : bits) b = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
    return bits[0] | bits[1] << 16;
}

template <int BYTES>
inline void copy_ahead(void* to, const float* from, bool wanted) { copy_later(to, from, BYTES, wanted); }

template <int LEFT>
inline void wait() { wait_for_copies(LEFT); }

template <class Body>
inline void run_blocks(int blocks, int count, Body body) {
    run_blocks(blocks, count, PACK, [](void* given) { (*(Body*)given)(); }, &body);
}
