/* The functions that generated updates use (engine/updates/code.py), for vectors of neurons. These updates have no
   spans, and their coefficients are the unchanged parameters. */
#ifndef POINTWISE_H
#define POINTWISE_H

#include <math.h>

#include "tanh.h"

#define NUMBER(x) splat((real)(x))

INLINE vec pointwise_select(mask where, vec yes, vec no) { return (vec)((where & (mask)yes) | (~where & (mask)no)); }
INLINE vec pointwise_tanh(vec x) { return vector_tanh(x); }
INLINE vec pointwise_sigmoid(vec x) { return vector_tanh(x * (real)0.5) * (real)0.5 + (real)0.5; }
INLINE vec pointwise_abs(vec x) { return (vec)((mask)x & ~(mask)splat((real)-0.0)); }
INLINE vec pointwise_relu(vec x) { return (vec)(~(x < 0) & (mask)x); } /* NaN stays NaN */
INLINE vec pointwise_sign(vec x)
{
    return (vec)(~(x == 0) & ((mask)splat(1) | ((mask)x & (mask)splat((real)-0.0))));
}

/* Computed lane by lane with the C library, which is slower. */
#ifdef DOUBLE
#define EACH_LANE(name, function) INLINE vec name(vec x) { EACH_LANE_(function); }
#else
#define EACH_LANE(name, function) INLINE vec name(vec x) { EACH_LANE_(function##f); }
#endif
#define EACH_LANE_(function)                                                          \
    for (ptrdiff_t lane = 0; lane < LANES; lane++) x[lane] = function(x[lane]);       \
    return x

EACH_LANE(pointwise_exp, exp)
EACH_LANE(pointwise_sin, sin)
EACH_LANE(pointwise_cos, cos)
EACH_LANE(pointwise_sqrt, sqrt)

#define PARAMETERS_ARE_COEFFICIENTS                                                                                   \
    INLINE void NAME(coefficients)(const vec *parameter, vec span, vec *k)                                            \
    {                                                                                                                 \
        (void)span;                                                                                                   \
        for (int i = 0; i < PARAMETERS; i++) k[i] = parameter[i];                                                     \
    }                                                                                                                 \
    INLINE void NAME(for_parameters)(const vec *parameter, vec span, const vec *for_k, vec *for_parameter,            \
                                     vec *for_span)                                                                   \
    {                                                                                                                 \
        (void)parameter, (void)span;                                                                                  \
        for (int i = 0; i < PARAMETERS; i++) for_parameter[i] = for_k[i];                                             \
        *for_span = splat(0);                                                                                         \
    }

#endif
