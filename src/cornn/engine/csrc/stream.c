/* One step at a time of a whole model: scaling, layers, head. Compiled once for each instruction set and precision,
   like kernels.c. Product, tanh and the order of sums are the same, so that single steps give the results of a
   sequence. */

#include <string.h>

#include "product.h"
#include "oscillator_step.h"

#define JOIN_(a, b, c) a##_##b##_##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#ifdef DOUBLE
#define NAME(word) JOIN(word, double, ISA)
#else
#define NAME(word) JOIN(word, float, ISA)
#endif

/* `Call` of streaming.py. Everything is contiguous; the names of shapes are those of its docstring. */
typedef struct {
    int64_t values, masked, hidden, layers, outputs, implicit;
    double timespan;
    const double *sample, *mean, *scale; /* (values); a NaN in the sample is a missing value */
    double *seen;                        /* (values): the last known value of each */
    const real *weights;                 /* layer after layer: R (hidden, 2 hidden), V (hidden, inputs), b (hidden) */
    const real *constants;               /* (layers, 3, hidden): dt, gamma, epsilon */
    const real *head;                    /* (outputs, hidden), then (outputs); NULL without a head */
    real *state;                         /* (layers, 2, hidden) */
    real *output;                        /* (outputs), there with a head */
    real *workspace;
} Stream;

INLINE ptrdiff_t inputs_of(const Stream *s, ptrdiff_t layer)
{
    return layer ? s->hidden : s->values * (s->masked ? 2 : 1);
}

INLINE ptrdiff_t depth_of(const Stream *s, ptrdiff_t layer) { return 2 * s->hidden + inputs_of(s, layer) + 1; }

/* The row [y, z, input, 1] of the deepest layer, and a row of products, with room for whole vectors. */
INLINE ptrdiff_t row_size(const Stream *s)
{
    const ptrdiff_t first = depth_of(s, 0), later = depth_of(s, 1);
    return round_up(first > later ? first : later, LANES) + LANES;
}

INLINE ptrdiff_t product_size(const Stream *s)
{
    return round_up(s->hidden > s->outputs ? s->hidden : s->outputs, LANES) + LANES;
}

/* Bytes of the workspace: two rows, then the packed weights of all layers, then those of the head. */
EXPORT int64_t NAME(cornn_stream_workspace)(const Stream *s)
{
    ptrdiff_t size = row_size(s) + product_size(s) + packed_size(s->hidden + 1, s->outputs);
    for (ptrdiff_t layer = 0; layer < s->layers; layer++) size += packed_size(depth_of(s, layer), s->hidden);
    return size * (int64_t)sizeof(real);
}

/* Packs the weights, once before the first step. */
EXPORT void NAME(cornn_stream_open)(const Stream *s)
{
    const ptrdiff_t m = s->hidden;
    const real *weights = s->weights;
    real *packed = s->workspace + row_size(s) + product_size(s);
    for (ptrdiff_t layer = 0; layer < s->layers; layer++) {
        const ptrdiff_t inputs = inputs_of(s, layer), depth = depth_of(s, layer);
        pack(weights, 1, 2 * m, 2 * m, m, packed, 0, depth);
        pack(weights + 2 * m * m, 1, inputs, inputs, m, packed, 2 * m, depth);
        pack(weights + (2 * m + inputs) * m, 0, 1, 1, m, packed, depth - 1, depth);
        weights += (2 * m + inputs + 1) * m;
        packed += packed_size(depth, m);
    }
    if (s->head) {
        pack(s->head, 1, m, m, s->outputs, packed, 0, m + 1);
        pack(s->head + m * s->outputs, 0, 1, 1, s->outputs, packed, m, m + 1);
    }
}

/* A missing value is replaced by the last known one, or by the mean; flags of missing values follow the values. */
INLINE void scale_sample(const Stream *s, real *to)
{
    for (ptrdiff_t i = 0; i < s->values; i++) {
        const double value = s->sample[i];
        const int missing = value != value;
        to[i] = (real)(((missing ? s->seen[i] : value) - s->mean[i]) / s->scale[i]);
        if (s->masked) to[s->values + i] = missing;
    }
}

INLINE void keep_sample(const Stream *s)
{
    for (ptrdiff_t i = 0; i < s->values; i++)
        if (s->sample[i] == s->sample[i]) s->seen[i] = s->sample[i];
}

/* Compares the exponents as integers, which takes a fraction of the time of `isfinite`. */
INLINE int all_finite(const real *x, ptrdiff_t count)
{
    const integer exponent = sizeof(real) == 8 ? (integer)0x7ff << 26 << 26 : (integer)0xff << 23;
    integer found = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        integer bits;
        memcpy(&bits, x + i, sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return !found;
}

/* Returns 1, or 0 with the state unchanged if a sum of the first layer is not finite: the sample contains infinity or
   overflows. */
EXPORT int64_t NAME(cornn_stream_step)(const Stream *s)
{
    const ptrdiff_t m = s->hidden;
    real *row = s->workspace, *sums = row + row_size(s), *packed = sums + product_size(s), *state = s->state;
    const real *constants = s->constants;
    const vec span = splat((real)s->timespan);
    for (ptrdiff_t layer = 0; layer < s->layers; layer++) {
        const ptrdiff_t depth = depth_of(s, layer);
        if (layer)
            copy(row + 2 * m, state - 2 * m, m);
        else
            scale_sample(s, row + 2 * m);
        copy(row, state, 2 * m);
        row[depth - 1] = 1;
        product(1, row, 0, packed, depth, m, sums, 0, 0, NULL);
        if (!layer) {
            if (!all_finite(sums, m)) return 0;
            keep_sample(s);
        }
        for (ptrdiff_t j = 0; j < m; j += LANES) {
            const ptrdiff_t count = m - j < LANES ? m - j : LANES;
            vec parameter[3], k[4], next[2];
            for (int i = 0; i < 3; i++) parameter[i] = get(constants + i * m + j, count);
            for (int i = 0; i < 2; i++) next[i] = get(state + i * m + j, count);
            oscillator_coefficients(s->implicit != 0, parameter, span, k);
            oscillator_step(k, load(sums + j), next);
            for (int i = 0; i < 2; i++) put(state + i * m + j, next[i], count);
        }
        packed += packed_size(depth, m);
        constants += 3 * m;
        state += 2 * m;
    }
    if (s->head) {
        copy(row, state - 2 * m, m);
        row[m] = 1;
        product(1, row, 0, packed, m + 1, s->outputs, sums, 0, 0, NULL);
        copy(s->output, sums, s->outputs);
    }
    return 1;
}
