// The activations of a neuron, and the values that the backward pass needs.
#pragma once

#define TANH 0
#define IDENTITY 1
#define RELU 2
#define DUFFING 3

// 1 / (1 + 2^x)
__device__ __forceinline__ float inverse_of_one_more(float x) {
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power + 1.f));
    return inverse;
}

// The sigmoid, to a few units in the last place.
__device__ __forceinline__ float logistic(float x) { return inverse_of_one_more(x * -1.4426950408889634f); }

// Relative error below 3e-7 everywhere: the exponential form loses digits near 0, where the polynomial takes over.
__device__ __forceinline__ float accurate_tanh(float x) {
    const float size = fabsf(x);
    const float large = copysignf(fmaf(-2.f, inverse_of_one_more(size * 2.885390081777927f), 1.f), x);
    const float s = x * x;
    float p = fmaf(-0.005515161901712418f, s, 0.020469417795538902f);
    p = fmaf(p, s, -0.05368802323937416f);
    p = fmaf(p, s, 0.1333083063364029f);
    p = fmaf(p, s, -0.3333325982093811f);
    const float small = fmaf(x * s, p, x);
    return size < 0.65f ? small : large;
}

// The stored number of an activation, and its value and slope from this number: as in engine/updates/oscillator.py.
__device__ __forceinline__ float keep(float pre) {
    if (ACTIVATION == TANH) return accurate_tanh(pre);
    if (ACTIVATION == RELU) return pre < 0.f ? 0.f : pre;
    return pre;
}

__device__ __forceinline__ float value(float kept) {
    return ACTIVATION == DUFFING ? kept - kept * kept * kept / 3.f : kept;
}

__device__ __forceinline__ float slope(float kept) {
    if (ACTIVATION == IDENTITY) return 1.f;
    if (ACTIVATION == RELU) return kept > 0.f ? 1.f : 0.f;
    return fmaf(-kept, kept, 1.f);
}
