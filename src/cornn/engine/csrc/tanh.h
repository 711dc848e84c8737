/* tanh of a vector, to three units in the last place: odd, bounded by 1, and NaN for NaN. */
#ifndef TANH_H
#define TANH_H

#include "vector.h"

/* SERIES is (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, highest power first: a minimax fit with relative error 1e-8
   for float, Taylor's terms for double. From BOUND on tanh rounds to 1. */
#ifdef DOUBLE
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define ROUND 0x1.8p52
#define FRACTION_BITS 52
#define EXPONENT_BIAS 1023
#define BOUND 20
#define SERIES                                                                                                  \
    1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, \
        1. / 120, 1. / 24, 1. / 6, 1. / 2
#else
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define ROUND 0x1.8p23f
#define FRACTION_BITS 23
#define EXPONENT_BIAS 127
#define BOUND 10
#define SERIES 0x1.6d99bep-10f, 0x1.12288p-7f, 0x1.555486p-5f, 0x1.5554aep-3f, 0.5f
#endif

/* exp(x), for x whose exponential is a normal number, and exp(x) - 1, accurate near 0: 2^n exp(r). */
INLINE vec bounded_exp(vec x, vec *less_one)
{
    static const real series[] = {SERIES};
    /* Adding ROUND leaves the nearest integer in the low bits. */
    const vec shifted = x * (real)1.4426950408889634 + ROUND;
    const vec n = shifted - ROUND;
    const vec r = (x - n * LN2_HIGH) - n * LN2_LOW;
    vec q = splat(series[0]);
    UNROLL for (size_t i = 1; i < sizeof series / sizeof *series; i++) q = q * r + series[i];
    const vec power = (vec)(((mask)shifted + EXPONENT_BIAS) << FRACTION_BITS);
    const vec rest = q * (r * r) + r; /* exp(r) - 1 */
    *less_one = power * rest + (power - 1);
    return power * rest + power;
}

/* e / (e + 2) with e = exp(2 |x|) - 1: no cancellation near 0, and near 1 the error of e has little effect, which
   matters for the slope 1 - tanh^2. */
INLINE vec vector_tanh(vec x)
{
    const mask sign_bit = (mask)splat((real)-0.0);
    const mask sign = (mask)x & sign_bit;
    const vec twice = at_most(splat(2 * BOUND), (vec)((mask)(x + x) & ~sign_bit));
    vec e;
    bounded_exp(twice, &e);
    return (vec)((mask)(e / (e + 2)) | sign);
}

#endif
