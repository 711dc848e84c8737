/* exp, sin and cos of vectors, for the powers of a step (spans.h). */
#ifndef POWERS_H
#define POWERS_H

#include "tanh.h"

/* LOWEST and HIGHEST bound the argument of exp, so that its exponent is that of a normal number. SINE and COSINE are
   Taylor's terms of sin(x) / x and cos(x) in x^2 for |x| <= pi / 4, highest power first. */
#ifdef DOUBLE
#define LOWEST -708
#define HIGHEST 709
#define SINE 1. / 355687428096000, -1. / 1307674368000, 1. / 6227020800, -1. / 39916800, 1. / 362880, -1. / 5040, 1. / 120, \
             -1. / 6, 1
#define COSINE 1. / 20922789888000, -1. / 87178291200, 1. / 479001600, -1. / 3628800, 1. / 40320, -1. / 720, 1. / 24, \
               -1. / 2, 1
#else
#define LOWEST -87
#define HIGHEST 88
#define SINE 1.f / 362880, -1.f / 5040, 1.f / 120, -1.f / 6, 1
#define COSINE -1.f / 3628800, 1.f / 40320, -1.f / 720, 1.f / 24, -1.f / 2, 1
#endif

INLINE vec pick(mask where, vec yes, vec no) { return (vec)((where & (mask)yes) | (~where & (mask)no)); }

/* exp(x), and exp(x) - 1, accurate near 0. */
INLINE vec vector_exp(vec x, vec *less_one)
{
    x = at_most(splat(HIGHEST), x);
    return bounded_exp(-at_most(splat(-LOWEST), -x), less_one);
}

/* sin(pi x) and cos(pi x) for |x| < 2^20. */
INLINE void vector_sincospi(vec x, vec *sine, vec *cosine)
{
    static const real odd[] = {SINE}, even[] = {COSINE};
    const vec shifted = 2 * x + ROUND;
    const mask quarter = (mask)shifted;
    const vec angle = (x - (shifted - ROUND) * (real)0.5) * (real)3.141592653589793, square = angle * angle;
    vec s = splat(odd[0]), c = splat(even[0]);
    UNROLL for (size_t i = 1; i < sizeof odd / sizeof *odd; i++) s = s * square + odd[i];
    UNROLL for (size_t i = 1; i < sizeof even / sizeof *even; i++) c = c * square + even[i];
    s *= angle;
    const mask swap = -(quarter & 1);
    const vec first = pick(swap, c, s), second = pick(swap, s, c);
    const mask sign_bit = (mask)splat((real)-0.0);
    *sine = (vec)((mask)first ^ (-(quarter >> 1 & 1) & sign_bit));
    *cosine = (vec)((mask)second ^ (-((quarter + 1) >> 1 & 1) & sign_bit));
}

#endif
