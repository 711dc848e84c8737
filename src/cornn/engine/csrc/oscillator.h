/* coRNN's update: the step of oscillator_step.h, and its derivative.

   An update, as sequence.h takes it, is seven numbers and five functions of vectors of neurons. IMPLICIT is given.
   With several drives there is one state: drives, and what is kept of them, then lie side by side. */

#include "oscillator_step.h"

#define STATES 2       /* y and z */
#define DRIVES 1       /* what the update takes: sums of a product and a drive */
#define PRODUCTS 1     /* blocks of R's rows: one for each drive, or a single one that all drives share */
#define LOOKS_BACK 0   /* whether the adjoint needs the states before the step; of each drive something is kept */
#define TIMED 1        /* whether a step has a time, which a span multiplies */
#define PARAMETERS 3   /* dt, gamma, epsilon */
#define COEFFICIENTS 4 /* keep, push, pull, dt */

INLINE void NAME(coefficients)(const vec *parameter, vec span, vec *k)
{
    oscillator_coefficients(IMPLICIT, parameter, span, k);
}

/* The new state in place of the old one. */
INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)
{
    kept[0] = oscillator_step(k, pre[0], state);
}

/* `gradient`, that of the new state, becomes that of the old one, less what comes through the product. */
INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)
{
    (void)before;
    const vec for_z = gradient[1] + gradient[0] * k[3];
    for_pre[0] = for_z * k[1] * (1 - kept[0] * kept[0]);
    gradient[0] -= for_z * k[2];
    gradient[1] = for_z * k[0];
}

/* `gradient` as adjoint gets it; the states before and after the step. */
INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,
                                   const vec *after, vec *for_k)
{
    const vec for_z = gradient[1] + gradient[0] * k[3];
    for_k[0] = for_z * before[1];
    for_k[1] = for_z * kept[0];
    for_k[2] = -for_z * before[0];
    for_k[3] = gradient[0] * after[1];
}

/* From gradients for the coefficients to gradients for the parameters and the span. */
INLINE void NAME(for_parameters)(const vec *parameter, vec span, const vec *for_k, vec *for_parameter, vec *for_span)
{
    const vec dt = parameter[0], gamma = parameter[1], epsilon = parameter[2], h = dt * span;
    vec for_h, k[COEFFICIENTS];
    if (IMPLICIT) {
        NAME(coefficients)(parameter, span, k);
        const vec w = k[0], for_w = for_k[0] + h * for_k[1] + h * gamma * for_k[2];
        for_h = for_k[3] + w * (for_k[1] + gamma * for_k[2]) - epsilon * w * w * for_w;
        for_parameter[1] = h * w * for_k[2];
        for_parameter[2] = -h * w * w * for_w;
    } else {
        for_h = for_k[3] + for_k[1] + gamma * for_k[2] - epsilon * for_k[0];
        for_parameter[1] = h * for_k[2];
        for_parameter[2] = -h * for_k[0];
    }
    for_parameter[0] = for_h * span;
    *for_span = for_h * dt;
}
