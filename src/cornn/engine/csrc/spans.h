/* coRNN over durations (engine/updates/spans.py): the state moves by the loss D = a I - b N of a power of a step.

   The parameters are those of `functional.spectrum`. There are no gradients of them. */

#include "powers.h"

#define STATES 2
#define DRIVES 1
#define PRODUCTS 1
#define LOOKS_BACK 0
#define TIMED 1
#define PARAMETERS 10
#define COEFFICIENTS 5 /* D_yy, D_yz, D_zy, D_zz, compliance */

enum { RINGS, LOG_SLOW, LOG_FAST, TURN, FAST_TURN, N_YY, N_YZ, N_ZY, N_ZZ, COMPLIANCE };

/* a and b of a power, as in `functional.decay`, and their derivatives with respect to the span unless `change` is NULL. */
INLINE void span_decay(const vec *parameter, vec span, vec *decay, vec *change)
{
    const mask rings = parameter[RINGS] > 0;
    const vec slow = parameter[LOG_SLOW], fast = parameter[LOG_FAST], turn = parameter[TURN], other = parameter[FAST_TURN];
    vec half_sine, half_cosine, sine_fast, cosine_fast, grown, rest_grown, gap_grown;
    const vec left = vector_exp(span * slow, &grown), rest = vector_exp(span * fast, &rest_grown);
    vector_sincospi(span * turn * (real)0.5, &half_sine, &half_cosine);
    vector_sincospi(span * other, &sine_fast, &cosine_fast);
    const vec versine = 2 * half_sine * half_sine, sine = 2 * half_sine * half_cosine, cosine = 1 - versine;
    const vec gap = span * (slow - fast);
    const mask near = (gap < splat(1)) & (turn == other);
    vector_exp(at_most(splat(1), gap), &gap_grown);
    const vec closer = -rest * gap_grown * cosine;
    decay[0] = left * versine - grown;
    decay[1] = pick(rings, left * sine, pick(near, closer, rest * cosine_fast - left * cosine));
    if (change) {
        const real pi = (real)3.141592653589793;
        const vec slow_cosine = left * (slow * cosine - pi * turn * sine);
        const vec slow_sine = left * (slow * sine + pi * turn * cosine);
        change[0] = -slow_cosine;
        change[1] = pick(rings, slow_sine, rest * (fast * cosine_fast - pi * other * sine_fast) - slow_cosine);
    }
}

INLINE void NAME(coefficients)(const vec *parameter, vec span, vec *k)
{
    vec decay[2];
    span_decay(parameter, span, decay, NULL);
    k[0] = decay[0] - decay[1] * parameter[N_YY];
    k[1] = -decay[1] * parameter[N_YZ];
    k[2] = -decay[1] * parameter[N_ZY];
    k[3] = decay[0] - decay[1] * parameter[N_ZZ];
    k[4] = parameter[COMPLIANCE];
}

INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)
{
    kept[0] = vector_tanh(pre[0]);
    const vec offset = state[0] - k[4] * kept[0], z = state[1];
    state[0] -= k[0] * offset + k[1] * z;
    state[1] -= k[2] * offset + k[3] * z;
}

INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)
{
    (void)before;
    const vec for_offset = k[0] * gradient[0] + k[2] * gradient[1]; /* with the sign changed */
    for_pre[0] = for_offset * k[4] * (1 - kept[0] * kept[0]);
    gradient[1] -= k[1] * gradient[0] + k[3] * gradient[1];
    gradient[0] -= for_offset;
}

INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,
                                   const vec *after, vec *for_k)
{
    (void)after;
    const vec offset = before[0] - k[4] * kept[0];
    for_k[0] = -gradient[0] * offset;
    for_k[1] = -gradient[0] * before[1];
    for_k[2] = -gradient[1] * offset;
    for_k[3] = -gradient[1] * before[1];
    for_k[4] = splat(0);
}

INLINE void NAME(for_parameters)(const vec *parameter, vec span, const vec *for_k, vec *for_parameter, vec *for_span)
{
    vec decay[2], change[2];
    span_decay(parameter, span, decay, change);
    const vec for_b = for_k[0] * parameter[N_YY] + for_k[1] * parameter[N_YZ] + for_k[2] * parameter[N_ZY] +
                      for_k[3] * parameter[N_ZZ];
    *for_span = (for_k[0] + for_k[3]) * change[0] - for_b * change[1];
    for (int i = 0; i < PARAMETERS; i++) for_parameter[i] = splat(0);
}
