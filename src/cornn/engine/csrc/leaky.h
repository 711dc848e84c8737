/* h = leak h + gain tanh(pre): tanh RNN, FastRNN, antisymmetric RNN. Parameters: leak, gain. */

#define STATES 1
#define DRIVES 1
#define PRODUCTS 1
#define LOOKS_BACK 0
#define TIMED 0
#define PARAMETERS 2
#define COEFFICIENTS 2

PARAMETERS_ARE_COEFFICIENTS

INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)
{
    kept[0] = vector_tanh(pre[0]);
    state[0] = k[0] * state[0] + k[1] * kept[0];
}

INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)
{
    (void)before;
    for_pre[0] = gradient[0] * k[1] * (1 - kept[0] * kept[0]);
    gradient[0] *= k[0];
}

INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,
                                   const vec *after, vec *for_k)
{
    (void)k;
    (void)after;
    for_k[0] = gradient[0] * before[0];
    for_k[1] = gradient[0] * kept[0];
}
