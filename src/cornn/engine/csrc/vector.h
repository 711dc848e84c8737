/* Vectors of the widest registers that the compiler was told to use.

   The arithmetic uses GNU vector extensions, so that gcc and clang generate AVX-512, AVX2, SSE or NEON from one source.
   Intrinsics are used only for what the extensions cannot express: loads and stores of part of a vector, stores past
   the caches, and a minimum that keeps a NaN. */
#ifndef VECTOR_H
#define VECTOR_H

#include <string.h>

#include "cornn.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifdef DOUBLE
typedef double real;
typedef int64_t integer;
#else
typedef float real;
typedef int32_t integer;
#endif

/* TILE_ROWS * 2 sums, 2 vectors of weights and a broadcast value must fit in the registers. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 12
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#elif defined(__aarch64__)
#define VECTOR_BYTES 16
#define TILE_ROWS 12
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 6
#endif

#define LANES ((ptrdiff_t)(VECTOR_BYTES / sizeof(real)))
#define INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef integer mask __attribute__((vector_size(VECTOR_BYTES)));
typedef real loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real))));

INLINE vec load(const real *from) { return *(const loose *)from; }

INLINE void store(real *to, vec x) { *(loose *)to = x; }

/* Stores past the caches, to an address that is a multiple of VECTOR_BYTES. Other threads may read it after drain(). */
#if defined(__AVX512F__) && defined(DOUBLE)
INLINE void stream(real *to, vec x) { _mm512_stream_pd(to, x); }
#elif defined(__AVX512F__)
INLINE void stream(real *to, vec x) { _mm512_stream_ps(to, x); }
#elif defined(__AVX2__) && defined(DOUBLE)
INLINE void stream(real *to, vec x) { _mm256_stream_pd(to, x); }
#elif defined(__AVX2__)
INLINE void stream(real *to, vec x) { _mm256_stream_ps(to, x); }
#else
INLINE void stream(real *to, vec x) { store(to, x); }
#endif

#if defined(__AVX2__)
INLINE void drain(void) { _mm_sfence(); }
#else
INLINE void drain(void) {}
#endif

INLINE vec splat(real x) { return x - (vec){0}; }

#if defined(__AVX512F__) && defined(DOUBLE)
#define KEEP(count) ((__mmask8)((1u << (count)) - 1))
INLINE vec load_part(const real *from, ptrdiff_t count) { return _mm512_maskz_loadu_pd(KEEP(count), from); }
INLINE void store_part(real *to, vec x, ptrdiff_t count) { _mm512_mask_storeu_pd(to, KEEP(count), x); }
INLINE vec at_most(vec bound, vec x) { return _mm512_min_pd(bound, x); }
#elif defined(__AVX512F__)
#define KEEP(count) ((__mmask16)((1u << (count)) - 1))
INLINE vec load_part(const real *from, ptrdiff_t count) { return _mm512_maskz_loadu_ps(KEEP(count), from); }
INLINE void store_part(real *to, vec x, ptrdiff_t count) { _mm512_mask_storeu_ps(to, KEEP(count), x); }
INLINE vec at_most(vec bound, vec x) { return _mm512_min_ps(bound, x); }
#else
#if defined(__AVX2__)
INLINE __m256i lanes_below(ptrdiff_t count)
{
    mask lane;
    for (integer i = 0; i < LANES; i++) lane[i] = i;
    return (__m256i)(lane < (integer)count);
}
#endif

#if defined(__AVX2__) && defined(DOUBLE)
INLINE vec load_part(const real *from, ptrdiff_t count) { return _mm256_maskload_pd(from, lanes_below(count)); }
INLINE void store_part(real *to, vec x, ptrdiff_t count) { _mm256_maskstore_pd(to, lanes_below(count), x); }
#elif defined(__AVX2__)
INLINE vec load_part(const real *from, ptrdiff_t count) { return _mm256_maskload_ps(from, lanes_below(count)); }
INLINE void store_part(real *to, vec x, ptrdiff_t count) { _mm256_maskstore_ps(to, lanes_below(count), x); }
#else
INLINE vec load_part(const real *from, ptrdiff_t count)
{
    vec x = {0};
    for (ptrdiff_t lane = 0; lane < count; lane++) x[lane] = from[lane];
    return x;
}

INLINE void store_part(real *to, vec x, ptrdiff_t count)
{
    for (ptrdiff_t lane = 0; lane < count; lane++) to[lane] = x[lane];
}
#endif

INLINE vec choose(mask where, vec yes, vec no) { return (vec)((where & (mask)yes) | (~where & (mask)no)); }
INLINE vec at_most(vec bound, vec x) { return choose(bound < x, bound, x); }
#endif

/* The count is LANES and known as such when compiling, except for the last vector of a row. */
INLINE vec get(const real *from, ptrdiff_t count) { return count == LANES ? load(from) : load_part(from, count); }

INLINE void put(real *to, vec x, ptrdiff_t count)
{
    if (count == LANES)
        store(to, x);
    else
        store_part(to, x, count);
}

INLINE void put_past(real *to, vec x, ptrdiff_t count, int past_caches)
{
    if (past_caches)
        stream(to, x);
    else
        put(to, x, count);
}

INLINE void copy(real *to, const real *from, ptrdiff_t count) { memcpy(to, from, count * sizeof(real)); }

INLINE real sum_of(vec x)
{
    real sum = 0;
    for (ptrdiff_t lane = 0; lane < LANES; lane++) sum += x[lane];
    return sum;
}

#endif
