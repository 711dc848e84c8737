/* One step of coRNN for a few sequences of a few neurons, forward and backward: `Cell` of engine/cell.py. Weights are
   read in place, with their scales, since packing them would take longer than one step. Compiled once for each
   precision. */

#include <math.h>
#include <string.h>

#include "cornn.h"

#ifdef DOUBLE
typedef double real;
#define NAME(word) word##_double
#define TANH tanh
#else
typedef float real;
#define NAME(word) word##_float
#define TANH tanhf
#endif

/* Everything is contiguous; absent arrays are NULL. */
typedef struct {
    int64_t batch, hidden, features, implicit;
    int64_t dt_each, gamma_each, epsilon_each; /* 1 for one number per neuron, 0 for one number */
    const real *input;                         /* (batch, features) */
    const real *y, *z;                         /* (batch, hidden), NULL for zeros */
    const real *V, *b, *R;                     /* (hidden, features), (hidden), (hidden, 2 hidden) */
    const real *scale_V, *scale_b, *scale_R;   /* the same shapes, or NULL */
    const real *dt, *gamma, *epsilon;
    real *next_y, *next_z, *force;       /* (batch, hidden) */
    const real *grad_next_y, *grad_next_z;
    real *grad_input, *grad_y, *grad_z, *grad_V, *grad_b, *grad_R; /* NULL if not needed */
    real *delta;                                                   /* (batch, hidden), to be overwritten */
} Cell;

#define LANES 8

/* The sum of weight * scale * value. */
static real dot(const real *weight, const real *scale, const real *value, ptrdiff_t count)
{
    real sum[LANES] = {0}, total = 0;
    ptrdiff_t j = 0;
    for (; j + LANES <= count; j += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += (scale ? weight[j + lane] * scale[j + lane] : weight[j + lane]) * value[j + lane];
    for (; j < count; j++) total += (scale ? weight[j] * scale[j] : weight[j]) * value[j];
    for (int lane = 0; lane < LANES; lane++) total += sum[lane];
    return total;
}

/* out += factor * weight * scale. */
static void add_row(real *out, real factor, const real *weight, const real *scale, ptrdiff_t count)
{
    for (ptrdiff_t j = 0; j < count; j++) out[j] += factor * (scale ? weight[j] * scale[j] : weight[j]);
}

typedef struct {
    real keep, push, pull, dt;
} Coefficients;

static Coefficients coefficients(const Cell *c, ptrdiff_t i)
{
    const real h = c->dt[i * c->dt_each], gamma = c->gamma[i * c->gamma_each], epsilon = c->epsilon[i * c->epsilon_each];
    const real keep = c->implicit ? 1 / (1 + h * epsilon) : 1 - h * epsilon, push = c->implicit ? h * keep : h;
    return (Coefficients){keep, push, gamma * push, h};
}

#define AT(pointer, offset) ((pointer) ? (pointer) + (offset) : NULL)

EXPORT void NAME(cornn_cell_forward)(const Cell *c)
{
    const ptrdiff_t m = c->hidden, d = c->features;
    for (ptrdiff_t row = 0; row < c->batch; row++) {
        const real *y = AT(c->y, row * m), *z = AT(c->z, row * m);
        for (ptrdiff_t i = 0; i < m; i++) {
            const Coefficients k = coefficients(c, i);
            const real *R = c->R + i * 2 * m, *scale_R = AT(c->scale_R, i * 2 * m);
            real pre = dot(c->V + i * d, AT(c->scale_V, i * d), c->input + row * d, d);
            if (c->b) pre += c->scale_b ? c->b[i] * c->scale_b[i] : c->b[i];
            if (y) pre += dot(R, scale_R, y, m);
            if (z) pre += dot(R + m, AT(scale_R, m), z, m);
            const real force = TANH(pre), y_i = y ? y[i] : 0, z_i = z ? z[i] : 0;
            const real next = k.keep * z_i + k.push * force - k.pull * y_i;
            c->next_z[row * m + i] = next;
            c->next_y[row * m + i] = y_i + k.dt * next;
            if (c->force) c->force[row * m + i] = force;
        }
    }
}

EXPORT void NAME(cornn_cell_backward)(const Cell *c)
{
    const ptrdiff_t m = c->hidden, d = c->features, all = c->batch * m;
    if (c->grad_input) memset(c->grad_input, 0, c->batch * d * sizeof(real));
    if (c->grad_V) memset(c->grad_V, 0, m * d * sizeof(real));
    if (c->grad_R) memset(c->grad_R, 0, 2 * m * m * sizeof(real));
    for (ptrdiff_t i = 0; i < m; i++) {
        const Coefficients k = coefficients(c, i);
        real sum = 0;
        for (ptrdiff_t at = i; at < all; at += m) {
            const real own = c->grad_next_y ? c->grad_next_y[at] : 0;
            const real total = (c->grad_next_z ? c->grad_next_z[at] : 0) + k.dt * own;
            c->delta[at] = total * k.push * (1 - c->force[at] * c->force[at]);
            if (c->grad_y) c->grad_y[at] = own - k.pull * total;
            if (c->grad_z) c->grad_z[at] = k.keep * total;
            sum += c->delta[at];
        }
        if (c->grad_b) c->grad_b[i] = c->scale_b ? sum * c->scale_b[i] : sum;
    }
    for (ptrdiff_t row = 0; row < c->batch; row++)
        for (ptrdiff_t i = 0; i < m; i++) {
            const real delta = c->delta[row * m + i];
            const real *V = c->V + i * d, *R = c->R + i * 2 * m;
            const real *scale_V = AT(c->scale_V, i * d), *scale_R = AT(c->scale_R, i * 2 * m);
            if (c->grad_input) add_row(c->grad_input + row * d, delta, V, scale_V, d);
            if (c->grad_y) add_row(c->grad_y + row * m, delta, R, scale_R, m);
            if (c->grad_z) add_row(c->grad_z + row * m, delta, R + m, AT(scale_R, m), m);
            if (c->grad_V) add_row(c->grad_V + i * d, delta, c->input + row * d, scale_V, d);
            if (c->grad_R && c->y) add_row(c->grad_R + i * 2 * m, delta, c->y + row * m, scale_R, m);
            if (c->grad_R && c->z) add_row(c->grad_R + i * 2 * m + m, delta, c->z + row * m, AT(scale_R, m), m);
        }
}
