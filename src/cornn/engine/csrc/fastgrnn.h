/* z = sigmoid(pre + b_z);  h = z h + (zeta (1 - z) + nu) tanh(pre + b_h). Parameters: b_z, b_h, zeta, nu. The
   pre-activation is kept. */

#define STATES 1
#define DRIVES 1
#define PRODUCTS 1
#define LOOKS_BACK 1
#define TIMED 0
#define PARAMETERS 4
#define COEFFICIENTS 4

PARAMETERS_ARE_COEFFICIENTS

INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)
{
    const vec z = vector_sigmoid(pre[0] + k[0]), candidate = vector_tanh(pre[0] + k[1]);
    kept[0] = pre[0];
    state[0] = z * state[0] + (k[2] * (1 - z) + k[3]) * candidate;
}

INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)
{
    const vec z = vector_sigmoid(kept[0] + k[0]), candidate = vector_tanh(kept[0] + k[1]);
    const vec for_z = (before[0] - k[2] * candidate) * z * (1 - z);
    const vec for_candidate = (k[2] * (1 - z) + k[3]) * (1 - candidate * candidate);
    for_pre[0] = gradient[0] * (for_z + for_candidate);
    gradient[0] *= z;
}

INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,
                                   const vec *after, vec *for_k)
{
    (void)after;
    const vec z = vector_sigmoid(kept[0] + k[0]), candidate = vector_tanh(kept[0] + k[1]);
    for_k[0] = gradient[0] * (before[0] - k[2] * candidate) * z * (1 - z);
    for_k[1] = gradient[0] * (k[2] * (1 - z) + k[3]) * (1 - candidate * candidate);
    for_k[2] = gradient[0] * candidate * (1 - z);
    for_k[3] = gradient[0] * candidate;
}
