/* The recurrence with one update: included once for each, after the update's macros and functions. */

#define STATE_STRIDE(p) row_stride(STATES * (p)->hidden)
#define PRODUCT_STRIDE(p) row_stride(PRODUCTS * (p)->hidden)
#define SCRATCH_SIZE(p) (UNIT_ROWS * (STATE_STRIDE(p) + PRODUCT_STRIDE(p) + LANES))
#define CONSTANTS_SIZE(p) ((PARAMETERS + COEFFICIENTS) * round_up((p)->hidden, LANES))
#define WEIGHTS(p) (PRODUCTS * STATES * (p)->hidden * (p)->hidden)

static Plan NAME(plan)(const Problem *p, int backward)
{
    const ptrdiff_t m = p->hidden, padded = round_up(m, LANES);
    const ptrdiff_t depth = (backward ? PRODUCTS : STATES) * m, columns = (backward ? STATES : PRODUCTS) * m;
    Plan plan = {.problem = p, .threads = threads_of(p, WEIGHTS(p))};
    plan.units = units_of(p, plan.threads, WEIGHTS(p));
    plan.block = p->steps * p->groups * p->batch * m;
    plan.packed_size = packed_size(depth, columns);
    real *packed = p->workspace, *constants = packed + p->groups * plan.packed_size;
    plan.packed = packed;
    plan.constants = constants;
    plan.scratch = constants + p->groups * CONSTANTS_SIZE(p);
    for (int64_t group = 0; group < p->groups; group++) {
        /* The forward pass multiplies by R transposed, the backward pass by R. */
        const real *weight = (const real *)p->weight + group * WEIGHTS(p);
        pack(weight, backward ? STATES * m : 1, backward ? 1 : STATES * m, depth, columns, packed);
        packed += plan.packed_size;
        for (ptrdiff_t j = 0; j < padded; j += LANES) {
            vec parameter[PARAMETERS], k[COEFFICIENTS];
            for (int i = 0; i < PARAMETERS; i++) {
                const real *from = (const real *)p->parameters + (i * p->groups + group) * m + j;
                parameter[i] = load_part(from, m - j < LANES ? m - j : LANES);
                store(constants + i * padded + j, parameter[i]);
            }
            NAME(coefficients)(parameter, splat(1), k);
            for (int i = 0; i < COEFFICIENTS; i++) store(constants + (PARAMETERS + i) * padded + j, k[i]);
        }
        constants += CONSTANTS_SIZE(p);
    }
    return plan;
}

static int64_t NAME(workspace)(const Problem *p)
{
    const ptrdiff_t m = p->hidden;
    const ptrdiff_t forward = packed_size(STATES * m, PRODUCTS * m), backward = packed_size(PRODUCTS * m, STATES * m);
    const ptrdiff_t packed = forward > backward ? forward : backward;
    return (p->groups * (packed + CONSTANTS_SIZE(p)) + p->threads * SCRATCH_SIZE(p)) * (int64_t)sizeof(real);
}

/* The coefficients of LANES neurons for one span. */
INLINE void NAME(at_span)(const real *constants, ptrdiff_t padded, const real *span, vec *k)
{
    vec parameter[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) parameter[i] = load(constants + i * padded);
    if (span)
        NAME(coefficients)(parameter, splat(*span), k);
    else
        for (int i = 0; i < COEFFICIENTS; i++) k[i] = load(constants + (PARAMETERS + i) * padded);
}

#include "forward.h"
#include "backward.h"

static const Kernel NAME(kernel) = {
    UPDATE_NAME, PARAMETERS, COEFFICIENTS, NAME(workspace), NAME(forward), NAME(backward),
};
