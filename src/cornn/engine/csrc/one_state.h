/* What the updates of one state h share: there are no spans, and the coefficients are the parameters as they are. */
#ifndef ONE_STATE_H
#define ONE_STATE_H

#include "tanh.h"

INLINE vec vector_sigmoid(vec x) { return vector_tanh(x * (real)0.5) * (real)0.5 + (real)0.5; }

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
