// The updates of networks of one state: see update.cuh for what an update is.
#pragma once
#include "activation.cuh"

// What networks of one state h share. It is called z here; y and what belongs to it are not used. There are no spans, and
// a step needs the parameters as they are. A neuron of the padding has all of them 0.
template <int COUNT, int DRIVES_ = 1, int PRODUCTS_ = 1>
struct OneState {
    static constexpr int STATES = 1;
    static constexpr int DRIVES = DRIVES_;
    static constexpr int PRODUCTS = PRODUCTS_;
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

// h = h + epsilon sigmoid(gate) tanh(candidate), both drives with the same product: gated antisymmetric RNN.
struct Gated : OneState<1, 2> {
    static constexpr bool LOOKS_BACK = false;
    using OneState<1, 2>::OneState;

    __device__ static __forceinline__ void forward(
        const Step& step, const float (&pre)[2], float& z, float (&kept)[2]) {
        kept[0] = logistic(pre[0]);
        kept[1] = accurate_tanh(pre[1]);
        z = fmaf(step.of[0] * kept[0], kept[1], z);
    }
    __device__ static __forceinline__ void adjoint(
        const Step& step, const float (&kept)[2], float for_z, float& grad_z, float (&delta)[2]) {
        const float open = step.of[0] * kept[0];
        const float for_gate = open * kept[1] * (1.f - kept[0]), for_candidate = open * fmaf(-kept[1], kept[1], 1.f);
        grad_z += for_z;
        delta[0] = for_gate * grad_z;
        delta[1] = for_candidate * grad_z;
    }
    __device__ static __forceinline__ void add(Step& sum, const float (&kept)[2], float grad_z) {
        sum.of[0] = fmaf(grad_z, kept[0] * kept[1], sum.of[0]);
    }
};

// h = h + epsilon (linear + tanh(inner)), each drive with a product of its own: Lipschitz RNN.
struct Lipschitz : OneState<1, 2, 2> {
    static constexpr bool LOOKS_BACK = false;
    using OneState<1, 2, 2>::OneState;

    __device__ static __forceinline__ void forward(
        const Step& step, const float (&pre)[2], float& z, float (&kept)[2]) {
        kept[0] = pre[0];
        kept[1] = accurate_tanh(pre[1]);
        z = fmaf(step.of[0], kept[0] + kept[1], z);
    }
    __device__ static __forceinline__ void adjoint(
        const Step& step, const float (&kept)[2], float for_z, float& grad_z, float (&delta)[2]) {
        const float for_inner = step.of[0] * fmaf(-kept[1], kept[1], 1.f);
        grad_z += for_z;
        delta[0] = step.of[0] * grad_z;
        delta[1] = for_inner * grad_z;
    }
    __device__ static __forceinline__ void add(Step& sum, const float (&kept)[2], float grad_z) {
        sum.of[0] = fmaf(grad_z, kept[0] + kept[1], sum.of[0]);
    }
};
