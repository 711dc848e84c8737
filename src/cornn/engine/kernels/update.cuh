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

    __device__ static __forceinline__ void carry(const Step& step, float, float& grad_y, float& grad_z) {
        grad_y = fmaf(-step.g, grad_z, grad_y);
        grad_z *= step.a;
    }

    // Add what one step gives to the gradients for a, c, g, h: what needs grad_z, and what needs grad_y, which may come
    // later. `z` is that after the step.
    __device__ static __forceinline__ void add(
        Step& sum, const Step&, float kept, const Before& before, float grad_z) {
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

// What networks of one state h share. It is called z here; y and what belongs to it are not used. There are no spans, and
// a step needs the parameters as they are. A neuron of the padding has all of them 0.
template <int COUNT>
struct OneState {
    static constexpr int STATES = 1;
    static constexpr int PARAMETERS = COUNT;
    static constexpr bool EARLY = false;

    struct Step {
        float of[COUNT];
    };

    struct Before {
        float y, z;
    };

    Step step;

    __device__ OneState(const float* parameters, long long stride, int neuron, int size) {
#pragma unroll
        for (int p = 0; p < COUNT; ++p) step.of[p] = neuron < size ? parameters[p * stride + neuron] : 0.f;
    }
    __device__ __forceinline__ Step at(float) const { return step; }
    __device__ __forceinline__ float earlier(float y, float) const { return y; }
    __device__ static __forceinline__ void add_late(Step&, float, float) {}
    __device__ __forceinline__ void gradients(const Step& sum, float, float (&out)[COUNT], float& for_span) const {
#pragma unroll
        for (int p = 0; p < COUNT; ++p) out[p] = sum.of[p];
        for_span = 0.f;
    }
};

// h = leak h + gain tanh(pre): tanh RNN, FastRNN, antisymmetric RNN.
struct Leaky : OneState<2> {
    static constexpr bool LOOKS_BACK = false;
    using OneState<2>::OneState;

    __device__ static __forceinline__ float forward(const Step& step, float pre, float&, float& z) {
        const float kept = accurate_tanh(pre);
        z = fmaf(step.of[1], kept, step.of[0] * z);
        return kept;
    }
    __device__ static __forceinline__ float adjoint(
        const Step& step, float kept, const Before&, float for_z, float, float& grad_z) {
        grad_z += for_z;
        return step.of[1] * fmaf(-kept, kept, 1.f) * grad_z;
    }
    __device__ static __forceinline__ void carry(const Step& step, float, float&, float& grad_z) {
        grad_z *= step.of[0];
    }
    __device__ static __forceinline__ void add(
        Step& sum, const Step&, float kept, const Before& before, float grad_z) {
        sum.of[0] = fmaf(grad_z, before.z, sum.of[0]);
        sum.of[1] = fmaf(grad_z, kept, sum.of[1]);
    }
};

// z = sigmoid(pre + b_z);  h = z h + (zeta (1 - z) + nu) tanh(pre + b_h). What is kept is the pre-activation.
struct FastGRNN : OneState<4> {
    static constexpr bool LOOKS_BACK = true;
    using OneState<4>::OneState;

    struct Parts {
        float gate, candidate, rest, weight;
    };
    __device__ static __forceinline__ Parts parts(const Step& step, float pre) {
        const float gate = logistic(pre + step.of[0]), rest = 1.f - gate;
        return {gate, accurate_tanh(pre + step.of[1]), rest, fmaf(step.of[2], rest, step.of[3])};
    }
    // What a unit of the new state's gradient gives for the gate's argument, and for the candidate's.
    __device__ static __forceinline__ float for_gate(const Step& step, const Parts& p, float z) {
        return fmaf(-step.of[2], p.candidate, z) * p.gate * p.rest;
    }
    __device__ static __forceinline__ float for_candidate(const Parts& p) {
        return p.weight * fmaf(-p.candidate, p.candidate, 1.f);
    }

    __device__ static __forceinline__ float forward(const Step& step, float pre, float&, float& z) {
        const Parts p = parts(step, pre);
        z = fmaf(p.gate, z, p.weight * p.candidate);
        return pre;
    }
    __device__ static __forceinline__ float adjoint(
        const Step& step, float kept, const Before& before, float for_z, float, float& grad_z) {
        const Parts p = parts(step, kept);
        const float scale = for_gate(step, p, before.z) + for_candidate(p);
        grad_z += for_z;
        return scale * grad_z;
    }
    __device__ static __forceinline__ void carry(const Step& step, float kept, float&, float& grad_z) {
        grad_z *= parts(step, kept).gate;
    }
    __device__ static __forceinline__ void add(
        Step& sum, const Step& step, float kept, const Before& before, float grad_z) {
        const Parts p = parts(step, kept);
        const float through = grad_z * p.candidate;
        sum.of[0] = fmaf(grad_z, for_gate(step, p, before.z), sum.of[0]);
        sum.of[1] = fmaf(grad_z, for_candidate(p), sum.of[1]);
        sum.of[2] = fmaf(through, p.rest, sum.of[2]);
        sum.of[3] += through;
    }
};

// h = sign(pre) relu(|pre| + b). What is kept is the pre-activation.
struct ModReLU : OneState<1> {
    static constexpr bool LOOKS_BACK = false;
    using OneState<1>::OneState;

    __device__ static __forceinline__ float sign(float x) { return x > 0.f ? 1.f : x < 0.f ? -1.f : 0.f; }
    __device__ static __forceinline__ float forward(const Step& step, float pre, float&, float& z) {
        const float size = fabsf(pre) + step.of[0];
        z = size > 0.f ? sign(pre) * size : 0.f * size;  // NaN stays NaN
        return pre;
    }
    __device__ static __forceinline__ float open(const Step& step, float pre) {
        return fabsf(pre) + step.of[0] > 0.f ? sign(pre) : 0.f;
    }
    __device__ static __forceinline__ float adjoint(
        const Step& step, float kept, const Before&, float for_z, float, float& grad_z) {
        grad_z += for_z;
        return open(step, kept) != 0.f ? grad_z : 0.f;
    }
    __device__ static __forceinline__ void carry(const Step&, float, float&, float& grad_z) { grad_z = 0.f; }
    __device__ static __forceinline__ void add(
        Step& sum, const Step& step, float kept, const Before&, float grad_z) {
        sum.of[0] = fmaf(grad_z, open(step, kept), sum.of[0]);
    }
};

using Update = UPDATE;
constexpr int STATES = Update::STATES;
constexpr bool EARLY = Update::EARLY;
static_assert(STATES == 2 || !EARLY, "the early form is that of two states");
