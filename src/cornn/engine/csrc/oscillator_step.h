/* One step of coRNN for a vector of neurons:  z = keep z + push tanh(pre) - pull y;  y = y + dt z.

   The coefficients k are keep, push, pull, dt, as in `functional.coefficients`. oscillator.h, for whole sequences, and
   stream.c, for single steps, share these functions, so that both give the same bits. */

#ifndef OSCILLATOR_STEP_H
#define OSCILLATOR_STEP_H

#include "tanh.h"

/* parameter: dt, gamma, epsilon. */
INLINE void oscillator_coefficients(int implicit, const vec *parameter, vec span, vec *k)
{
    const vec h = parameter[0] * span, gamma = parameter[1], epsilon = parameter[2];
    const vec w = implicit ? 1 / (1 + h * epsilon) : splat(1);
    k[0] = implicit ? w : 1 - h * epsilon;
    k[1] = h * w;
    k[2] = h * gamma * w;
    k[3] = h;
}

/* Replaces the state y, z by the next one, and returns tanh(pre). */
INLINE vec oscillator_step(const vec *k, vec pre, vec *state)
{
    const vec force = vector_tanh(pre);
    state[1] = k[0] * state[1] + k[1] * force - k[2] * state[0];
    state[0] += k[3] * state[1];
    return force;
}

#endif
