/* h = h + epsilon (linear + tanh(inner)): Lipschitz RNN. Parameter: epsilon. */

#define STATES 1
#define DRIVES 2
#define PRODUCTS 2
#define LOOKS_BACK 0
#define TIMED 0
#define PARAMETERS 1
#define COEFFICIENTS 1

PARAMETERS_ARE_COEFFICIENTS

INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)
{
    kept[0] = pre[0];
    kept[1] = vector_tanh(pre[1]);
    state[0] += k[0] * (kept[0] + kept[1]);
}

INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)
{
    (void)before;
    for_pre[0] = gradient[0] * k[0];
    for_pre[1] = for_pre[0] * (1 - kept[1] * kept[1]);
}

INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,
                                   const vec *after, vec *for_k)
{
    (void)k;
    (void)before;
    (void)after;
    for_k[0] = gradient[0] * (kept[0] + kept[1]);
}
