// The pointwise part of a recurrence: what a lane does with its neuron once the product of a step is summed.
//
// An update is a struct of the parameters of one neuron with `at` (what a step needs of them), `forward`, `adjoint` and
// `carry`, and the gradients of the parameters. The kernels know no more of it. coRNN's is below; the others are generated
// from expressions by engine/updates/code.py and arrive as the macro UPDATE_CODE. STATES is the number of blocks of the
// state: with two they are called y and z, y being the output; with one it is z, and y is not touched. LOOKS_BACK says
// that the adjoint needs the state before the step.
//
// DRIVES is the number of pre-activations of a neuron and PRODUCTS that of the blocks of rows of R. Two drives with one
// product share it; two products are of the same state, the first with the first drive.
#pragma once
#include "pointwise.cuh"

// coRNN:  z = keep z + push sigma(pre) - pull y;  y = y + dt z, with the coefficients of `functional.coefficients`.
//
// EARLY is the shorter critical path: with U = W_z + W diag(dt) the pre-activation is U z_{n-1} + W y_{n-2} + drive, of
// which only the first term waits for the step before. It needs one dt for all steps. Backward, U' delta is what the
// next step waits for, and W' delta may come one step late.
struct Oscillator {
    static constexpr bool GENERATED = false;
    static constexpr int STATES = 2;
    static constexpr int DRIVES = 1;
    static constexpr int PRODUCTS = 1;
    static constexpr int PARAMETERS = 3;
    static constexpr bool LOOKS_BACK = false;
    static constexpr bool EARLY = !SPANS;

    struct Step {
        float keep, push, pull, dt;
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
        const float keep = 1.f / fmaf(h, epsilon, 1.f);
        return {keep, h * keep, h * gamma * keep, h};
    }

    // y_{-1}, as far as the early form is concerned.
    __device__ __forceinline__ float earlier(float y, float z) const { return fmaf(-dt, z, y); }

    __device__ static __forceinline__ float forward(const Step& step, float pre, float& y, float& z) {
        const float rest = fmaf(step.keep, z, -step.pull * y);
        const float kept = keep(pre);
        z = fmaf(step.push, value(kept), rest);
        y = fmaf(step.dt, z, y);
        return kept;
    }

    // delta of this step; grad_z comes out complete. EARLY: for_z = U' delta of the step after, and grad_y comes in
    // without W' delta of the step after, which it may get later. Otherwise for_z = W_z' delta, and grad_y is complete.
    __device__ static __forceinline__ float adjoint(
        const Step& step, float kept, const Before&, float for_z, float grad_y, float& grad_z) {
        const float rest = fmaf(step.dt, grad_y, grad_z);
        const float scale = step.push * slope(kept);
        grad_z = rest + for_z;
        return scale * grad_z;
    }

    __device__ static __forceinline__ void carry(const Step& step, float, float& grad_y, float& grad_z) {
        grad_y = fmaf(-step.pull, grad_z, grad_y);
        grad_z *= step.keep;
    }

    // Add what one step gives to the gradients of the coefficients: what needs grad_z, and what needs grad_y, which may come
    // later. `z` is that after the step.
    __device__ static __forceinline__ void add(
        Step& sum, const Step&, float kept, const Before& before, float grad_z) {
        sum.keep = fmaf(grad_z, before.z, sum.keep);
        sum.push = fmaf(grad_z, value(kept), sum.push);
        sum.pull = fmaf(-grad_z, before.y, sum.pull);
    }
    __device__ static __forceinline__ void add_late(Step& sum, float z, float grad_y) {
        sum.dt = fmaf(grad_y, z, sum.dt);
    }

    // From gradients of the coefficients to gradients of dt, gamma, epsilon and the span.
    __device__ __forceinline__ void gradients(
        const Step& gradient, float span, float (&out)[PARAMETERS], float& for_span) const {
        const float h = dt * span;
        float for_h, w = 1.f;
        if (!IMPLICIT) {
            for_h = gradient.dt + gradient.push + gamma * gradient.pull - epsilon * gradient.keep;
            out[1] = h * gradient.pull;
            out[2] = -h * gradient.keep;
        } else {
            w = 1.f / fmaf(h, epsilon, 1.f);
            const float for_w = gradient.keep + h * gradient.push + h * gamma * gradient.pull;
            for_h = gradient.dt + w * (gradient.push + gamma * gradient.pull) - epsilon * w * w * for_w;
            out[1] = h * w * gradient.pull;
            out[2] = -h * w * w * for_w;
        }
        out[0] = for_h * span;
        for_span = for_h * dt;
    }
};

// coRNN over durations (engine/updates/spans.py): the state moves by the loss D = a I - b N of a power of a step. The
// parameters are those of `functional.spectrum`; there are no gradients of them.
struct Spans {
    static constexpr bool GENERATED = true;
    static constexpr int STATES = 2;
    static constexpr int DRIVES = 1;
    static constexpr int PRODUCTS = 1;
    static constexpr int PARAMETERS = 10;
    static constexpr bool LOOKS_BACK = false;
    static constexpr bool EARLY = false;
    static constexpr float PI = 3.14159265358979f;

    struct Step {
        float yy, yz, zy, zz, compliance;
    };

    struct Before {
        float y, z;
    };

    bool rings;
    float log_slow, log_fast, turn, fast_turn, yy, yz, zy, zz, compliance;

    // A neuron of the padding has all parameters 0: it stays at rest and its delta is 0.
    __device__ Spans(const float* parameters, long long stride, int neuron, int size) {
        float of[PARAMETERS];
#pragma unroll
        for (int p = 0; p < PARAMETERS; ++p) of[p] = neuron < size ? parameters[p * stride + neuron] : 0.f;
        rings = of[0] > 0.f;
        log_slow = of[1], log_fast = of[2], turn = of[3], fast_turn = of[4];
        yy = of[5], yz = of[6], zy = of[7], zz = of[8], compliance = of[9];
    }

    // a and b of a power, as in `functional.decay`, and their derivatives with respect to the span if CHANGE.
    template <bool CHANGE>
    __device__ __forceinline__ void decay(float span, float& a, float& b, float& for_a, float& for_b) const {
        const float grown = expm1f(span * log_slow);
        const float left = grown > -0.5f ? grown + 1.f : expf(span * log_slow);  // without cancellation
        float half_sine, half_cosine, fast_sine = 0.f, fast_cosine = 1.f;
        sincospif(0.5f * span * turn, &half_sine, &half_cosine);
        if (fast_turn != 0.f) sincospif(span * fast_turn, &fast_sine, &fast_cosine);
        const float versine = 2.f * half_sine * half_sine, sine = 2.f * half_sine * half_cosine, cosine = 1.f - versine;
        const float rest = expf(span * log_fast), gap = span * (log_slow - log_fast);
        a = fmaf(left, versine, -grown);
        if (rings) b = left * sine;
        else if (gap < 1.f && turn == fast_turn) b = -rest * expm1f(gap) * cosine;
        else b = fmaf(rest, fast_cosine, -left * cosine);
        if (!CHANGE) return;
        const float slow_cosine = left * (log_slow * cosine - PI * turn * sine);
        for_a = -slow_cosine;
        for_b = rings ? left * (log_slow * sine + PI * turn * cosine)
                      : rest * (log_fast * fast_cosine - PI * fast_turn * fast_sine) - slow_cosine;
    }

    __device__ __forceinline__ Step at(float span) const {
        float a, b, none;
        decay<false>(span, a, b, none, none);
        return {fmaf(-b, yy, a), -b * yz, -b * zy, fmaf(-b, zz, a), compliance};
    }

    __device__ __forceinline__ float earlier(float y, float) const { return y; }

    __device__ static __forceinline__ void forward(
        const Step& step, const float (&pre)[1], float& y, float& z, float (&kept)[1]) {
        kept[0] = keep(pre[0]);
        const float offset = fmaf(-step.compliance, value(kept[0]), y);
        y -= fmaf(step.yy, offset, step.yz * z);
        z -= fmaf(step.zy, offset, step.zz * z);
    }

    __device__ static __forceinline__ void adjoint(const Step& step, const float (&kept)[1], const Before&, float for_z,
                                                   float grad_y, float& grad_z, float (&delta)[1]) {
        grad_z += for_z;
        delta[0] = step.compliance * slope(kept[0]) * fmaf(step.yy, grad_y, step.zy * grad_z);
    }

    __device__ static __forceinline__ void carry(
        const Step& step, const float (&)[1], const Before&, float& grad_y, float& grad_z) {
        const float for_offset = fmaf(step.yy, grad_y, step.zy * grad_z);  // with the sign changed
        grad_z -= fmaf(step.yz, grad_y, step.zz * grad_z);
        grad_y -= for_offset;
    }

    __device__ static __forceinline__ void add(
        Step& sum, const Step& step, const float (&kept)[1], const Before& before, float grad_y, float grad_z) {
        const float offset = fmaf(-step.compliance, value(kept[0]), before.y);
        sum.yy -= grad_y * offset, sum.yz -= grad_y * before.z;
        sum.zy -= grad_z * offset, sum.zz -= grad_z * before.z;
    }
    __device__ static __forceinline__ void add_late(Step&, float, float) {}

    __device__ __forceinline__ void gradients(
        const Step& gradient, float span, float (&out)[PARAMETERS], float& for_span) const {
        float a, b, for_a, for_b;
        decay<true>(span, a, b, for_a, for_b);
        const float both = gradient.yy + gradient.zz;
        const float along = gradient.yy * yy + gradient.yz * yz + gradient.zy * zy + gradient.zz * zz;
        for_span = both * for_a - along * for_b;
#pragma unroll
        for (int p = 0; p < PARAMETERS; ++p) out[p] = 0.f;
    }
};

#ifdef UPDATE_CODE
UPDATE_CODE
#endif

using Update = UPDATE;
constexpr int STATES = Update::STATES;
constexpr int DRIVES = Update::DRIVES;
constexpr int PRODUCTS = Update::PRODUCTS;
constexpr bool EARLY = Update::EARLY;
static_assert(STATES == 2 || !EARLY, "the early form is that of two states");
static_assert(STATES == 1 || DRIVES == 1, "several drives are for one state");
static_assert(PRODUCTS == 1 || PRODUCTS == DRIVES, "a product goes to one drive or to all");

// R is two square blocks, of two states or of two products; otherwise it is one, the second, and there is no first.
constexpr bool TWO_BLOCKS = STATES * PRODUCTS == 2;

// The same for coRNN, whose functions take numbers, and for the other updates, which take arrays of one or two drives.
template <typename U>
__device__ __forceinline__ void advance(
    const typename U::Step& step, const float (&pre)[DRIVES], float& y, float& z, float (&kept)[DRIVES]) {
    if constexpr (U::GENERATED) U::forward(step, pre, y, z, kept);
    else kept[0] = U::forward(step, pre[0], y, z);
}
template <typename U>
__device__ __forceinline__ void reverse(const typename U::Step& step, const float (&kept)[DRIVES],
                                        const typename U::Before& before, float for_z, float grad_y, float& grad_z,
                                        float (&delta)[DRIVES]) {
    if constexpr (U::GENERATED) U::adjoint(step, kept, before, for_z, grad_y, grad_z, delta);
    else delta[0] = U::adjoint(step, kept[0], before, for_z, grad_y, grad_z);
}
template <typename U>
__device__ __forceinline__ void carry(const typename U::Step& step, const float (&kept)[DRIVES],
                                      const typename U::Before& before, float& grad_y, float& grad_z) {
    if constexpr (U::GENERATED) U::carry(step, kept, before, grad_y, grad_z);
    else U::carry(step, kept[0], grad_y, grad_z);
}
template <typename U>
__device__ __forceinline__ void add(typename U::Step& sum, const typename U::Step& step, const float (&kept)[DRIVES],
                                    const typename U::Before& before, float grad_y, float grad_z) {
    if constexpr (U::GENERATED) U::add(sum, step, kept, before, grad_y, grad_z);
    else U::add(sum, step, kept[0], before, grad_z);
}
