// The pointwise part of a recurrence: what a lane does with its neuron once the product of a step is summed.
//
// An update is a struct of the parameters of one neuron with `at` (what a step needs of them), `forward`, `adjoint` and
// `carry`, and the gradients of the parameters. The kernels know no more of it. STATES is the number of blocks of the
// state: with two they are called y and z, y being the output; with one it is z, and y is not touched. LOOKS_BACK says
// that the adjoint needs the state before the step.
#pragma once

#define TANH 0
#define IDENTITY 1
#define RELU 2
#define DUFFING 3

// Relative error below 3e-7 everywhere: the exponential form loses digits near 0, where the polynomial takes over.
__device__ __forceinline__ float accurate_tanh(float x) {
    const float size = fabsf(x);
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(size * 2.885390081777927f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power + 1.f));
    const float large = copysignf(fmaf(-2.f, inverse, 1.f), x);
    const float s = x * x;
    float p = fmaf(-0.005515161901712418f, s, 0.020469417795538902f);
    p = fmaf(p, s, -0.05368802323937416f);
    p = fmaf(p, s, 0.1333083063364029f);
    p = fmaf(p, s, -0.3333325982093811f);
    const float small = fmaf(x * s, p, x);
    return size < 0.65f ? small : large;
}

// What is kept of an activation, its value and its slope: as in updates.py.
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

// coRNN:  z = a z + c sigma(pre) - g y;  y = y + h z.
//
// EARLY is the shorter critical path: with U = W_z + W diag(dt) the pre-activation is U z_{n-1} + W y_{n-2} + drive, of
// which only the first term waits for the step before. It needs one dt for all steps. Backward, U' delta is what the
// next step waits for, and W' delta may come one step late.
struct Oscillator {
    static constexpr int STATES = 2;
    static constexpr int PARAMETERS = 3;
    static constexpr bool LOOKS_BACK = false;
    static constexpr bool EARLY = !SPANS;

    struct Step {
        float a, c, g, h;
    };

    struct Before {
        float y, z;
    };

    float dt, gamma, epsilon;

    // A neuron of the padding has all parameters 0: it stays at rest and its delta is 0.
    __device__ Oscillator(const float* parameters, long long stride, int neuron, int size) {
        dt = gamma = epsilon = 0.f;
        if (neuron < size) {
            dt = parameters[neuron];
            gamma = parameters[stride + neuron];
            epsilon = parameters[2 * stride + neuron];
        }
    }

    __device__ __forceinline__ Step at(float span) const {
        const float h = dt * span;
        if (!IMPLICIT) return {fmaf(-h, epsilon, 1.f), h, h * gamma, h};
        const float w = 1.f / fmaf(h, epsilon, 1.f);
        return {w, h * w, h * gamma * w, h};
    }

    // y_{-1}, as far as the early form is concerned.
    __device__ __forceinline__ float earlier(float y, float z) const { return fmaf(-dt, z, y); }

    __device__ static __forceinline__ float forward(const Step& step, float pre, float& y, float& z) {
        const float rest = fmaf(step.a, z, -step.g * y);
        const float kept = keep(pre);
        z = fmaf(step.c, value(kept), rest);
        y = fmaf(step.h, z, y);
        return kept;
    }

    // delta of this step; grad_z comes out complete. EARLY: for_z = U' delta of the step after, and grad_y comes in
    // without W' delta of the step after, which it may get later. Otherwise for_z = W_z' delta, and grad_y is complete.
    __device__ static __forceinline__ float adjoint(
        const Step& step, float kept, const Before&, float for_z, float grad_y, float& grad_z) {
        const float rest = fmaf(step.h, grad_y, grad_z);
        const float scale = step.c * slope(kept);
        grad_z = rest + for_z;
        return scale * grad_z;
    }

    __device__ static __forceinline__ void carry(const Step& step, float& grad_y, float& grad_z) {
        grad_y = fmaf(-step.g, grad_z, grad_y);
        grad_z *= step.a;
    }

    // Add what one step gives to the gradients for a, c, g, h: what needs grad_z, and what needs grad_y, which may come
    // later. `z` is that after the step.
    __device__ static __forceinline__ void add(Step& sum, float kept, const Before& before, float grad_z) {
        sum.a = fmaf(grad_z, before.z, sum.a);
        sum.c = fmaf(grad_z, value(kept), sum.c);
        sum.g = fmaf(-grad_z, before.y, sum.g);
    }
    __device__ static __forceinline__ void add_late(Step& sum, float z, float grad_y) {
        sum.h = fmaf(grad_y, z, sum.h);
    }

    // From gradients for a, c, g, h to gradients for dt, gamma, epsilon and the span.
    __device__ __forceinline__ void gradients(
        const Step& gradient, float span, float (&out)[PARAMETERS], float& for_span) const {
        const float h = dt * span;
        float for_h, w = 1.f;
        if (!IMPLICIT) {
            for_h = gradient.h + gradient.c + gamma * gradient.g - epsilon * gradient.a;
            out[1] = h * gradient.g;
            out[2] = -h * gradient.a;
        } else {
            w = 1.f / fmaf(h, epsilon, 1.f);
            const float for_w = gradient.a + h * gradient.c + h * gamma * gradient.g;
            for_h = gradient.h + w * (gradient.c + gamma * gradient.g) - epsilon * w * w * for_w;
            out[1] = h * w * gradient.g;
            out[2] = -h * w * w * for_w;
        }
        out[0] = for_h * span;
        for_span = for_h * dt;
    }
};

using Update = UPDATE;
constexpr int STATES = Update::STATES;
constexpr bool EARLY = Update::EARLY;
static_assert(STATES == 2 || !EARLY, "the early form is that of two states");
