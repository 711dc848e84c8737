/* h = sign(pre) relu(|pre| + b): expRNN and DTRIV. Parameter: b. The pre-activation is kept. NaN stays NaN. */

#define STATES 1
#define DRIVES 1
#define PRODUCTS 1
#define LOOKS_BACK 0
#define TIMED 0
#define PARAMETERS 1
#define COEFFICIENTS 1

PARAMETERS_ARE_COEFFICIENTS

INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)
{
    const mask sign_bit = (mask)splat((real)-0.0);
    const vec size = (vec)((mask)pre[0] & ~sign_bit) + k[0];
    const mask open = ~(mask)(size <= 0) & ~(mask)(pre[0] == 0);
    kept[0] = pre[0];
    state[0] = (vec)(open & ((mask)size | ((mask)pre[0] & sign_bit)));
}

INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)
{
    (void)before;
    const vec size = (vec)((mask)kept[0] & ~(mask)splat((real)-0.0)) + k[0];
    const mask open = ~(mask)(size <= 0) & ~(mask)(kept[0] == 0);
    for_pre[0] = (vec)(open & (mask)gradient[0]);
    gradient[0] = splat(0);
}

INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,
                                   const vec *after, vec *for_k)
{
    (void)before;
    (void)after;
    const mask sign_bit = (mask)splat((real)-0.0);
    const vec size = (vec)((mask)kept[0] & ~sign_bit) + k[0];
    const mask open = ~(mask)(size <= 0) & ~(mask)(kept[0] == 0);
    for_k[0] = (vec)(open & ((mask)gradient[0] ^ ((mask)kept[0] & sign_bit)));
}
