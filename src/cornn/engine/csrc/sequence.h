/* The recurrence with one update: included once for each, after the update's macros and functions. */

/* The input map is part of the product: after its states a row has its input, and a 1 for the bias. An update with more
   drives than products receives its drives already computed. */
#define INPUTS(call) ((call)->input_weight ? (call)->features : 0)
#define DEPTH(call) (STATES * (call)->hidden + INPUTS(call) + ((call)->bias != NULL))
#define STATE_STRIDE(call) row_stride(DEPTH(call))
#define PRODUCT_STRIDE(call) row_stride(PRODUCTS * (call)->hidden)
#define INPUT_STRIDE(call) row_stride(INPUTS(call))
#define SCRATCH_SIZE(call) (UNIT_ROWS * (STATE_STRIDE(call) + PRODUCT_STRIDE(call) + INPUT_STRIDE(call) + LANES))
#define CONSTANTS_SIZE(call) ((PARAMETERS + COEFFICIENTS) * round_up((call)->hidden, LANES))
#define WEIGHTS(call) (PRODUCTS * STATES * (call)->hidden * (call)->hidden)

static Plan NAME(plan)(const Call *call, int backward)
{
    const ptrdiff_t m = call->hidden, padded = round_up(m, LANES);
    const ptrdiff_t inputs = INPUTS(call), depth = backward ? PRODUCTS * m : DEPTH(call);
    const ptrdiff_t own = packed_size(depth, (backward ? STATES : PRODUCTS) * m);
    Plan plan = {.call = call, .threads = threads_of(call, WEIGHTS(call))};
    plan.units = units_of(call, plan.threads);
    plan.block = call->steps * call->groups * call->batch * m;
    plan.packed_size = own + (backward && call->grad_input ? packed_size(depth, inputs) : 0);
    real *packed = call->workspace, *constants = packed + call->groups * plan.packed_size;
    plan.packed = packed;
    plan.packed_input = packed + own;
    plan.constants = constants;
    plan.scratch = constants + call->groups * CONSTANTS_SIZE(call);
    for (int64_t group = 0; group < call->groups; group++) {
        const real *weight = (const real *)call->weight + group * WEIGHTS(call);
        const real *input_weight = inputs ? (const real *)call->input_weight + group * PRODUCTS * m * inputs : NULL;
        const real *bias = call->bias ? (const real *)call->bias + group * PRODUCTS * m : NULL;
        /* The forward pass multiplies by R, V and b transposed, the backward pass by R and V. */
        if (backward) {
            pack(weight, STATES * m, 1, depth, STATES * m, packed, 0, depth);
            if (call->grad_input) pack(input_weight, inputs, 1, depth, inputs, packed + own, 0, depth);
        } else {
            pack(weight, 1, STATES * m, STATES * m, PRODUCTS * m, packed, 0, depth);
            if (inputs) pack(input_weight, 1, inputs, inputs, PRODUCTS * m, packed, STATES * m, depth);
            if (bias) pack(bias, 0, 1, 1, PRODUCTS * m, packed, depth - 1, depth);
        }
        packed += plan.packed_size;
        for (ptrdiff_t j = 0; j < padded; j += LANES) {
            vec parameter[PARAMETERS], k[COEFFICIENTS];
            for (int i = 0; i < PARAMETERS; i++) {
                const real *from = (const real *)call->parameters + (i * call->groups + group) * m + j;
                parameter[i] = load_part(from, m - j < LANES ? m - j : LANES);
                store(constants + i * padded + j, parameter[i]);
            }
            NAME(coefficients)(parameter, splat(1), k);
            for (int i = 0; i < COEFFICIENTS; i++) store(constants + (PARAMETERS + i) * padded + j, k[i]);
        }
        constants += CONSTANTS_SIZE(call);
    }
    return plan;
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
#include "gradient.h"

static int64_t NAME(workspace)(const Call *call)
{
    const ptrdiff_t m = call->hidden, gradient = NAME(gradient_workspace)(call);
    const ptrdiff_t forward = packed_size(DEPTH(call), PRODUCTS * m);
    const ptrdiff_t backward = packed_size(PRODUCTS * m, STATES * m) + packed_size(PRODUCTS * m, INPUTS(call));
    const ptrdiff_t packed = forward > backward ? forward : backward;
    const ptrdiff_t passes = call->groups * (packed + CONSTANTS_SIZE(call)) + call->threads * SCRATCH_SIZE(call);
    return (passes > gradient ? passes : gradient) * (int64_t)sizeof(real);
}

static const Kernel NAME(kernel) = {
    .update = UPDATE_NAME,
    .parameters = PARAMETERS,
    .coefficients = COEFFICIENTS,
    .workspace = NAME(workspace),
    .forward = NAME(forward),
    .backward = NAME(backward),
    .weight_gradients = NAME(weight_gradients),
};
