// The functions that generated updates use (engine/updates/code.py), and the base class of these updates.
#pragma once
#include "activation.cuh"

#define NUMBER(x) ((float)(x))

__device__ __forceinline__ float pointwise_select(bool where, float yes, float no) { return where ? yes : no; }
__device__ __forceinline__ float pointwise_tanh(float x) { return accurate_tanh(x); }
__device__ __forceinline__ float pointwise_sigmoid(float x) { return logistic(x); }
__device__ __forceinline__ float pointwise_abs(float x) { return fabsf(x); }
__device__ __forceinline__ float pointwise_relu(float x) { return x < 0.f ? 0.f : x; }  // NaN stays NaN
__device__ __forceinline__ float pointwise_sign(float x) { return x > 0.f ? 1.f : x < 0.f ? -1.f : 0.f; }
__device__ __forceinline__ float pointwise_exp(float x) { return expf(x); }
__device__ __forceinline__ float pointwise_sin(float x) { return sinf(x); }
__device__ __forceinline__ float pointwise_cos(float x) { return cosf(x); }
__device__ __forceinline__ float pointwise_sqrt(float x) { return sqrtf(x); }

// Generated updates have no spans, and a step uses the parameters unchanged. Neurons of the padding have the parameters
// of the first neuron: their weights are 0, so that their values have no effect as long as they are finite. A single
// state is z; y and its gradients are then unused.
template <int STATES_, int COUNT, int DRIVES_, int PRODUCTS_>
struct Parameters {
    static constexpr bool GENERATED = true;
    static constexpr int STATES = STATES_;
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

    __device__ Parameters(const float* parameters, long long stride, int neuron, int size) {
#pragma unroll
        for (int p = 0; p < COUNT; ++p) step.of[p] = parameters[p * stride + (neuron < size ? neuron : 0)];
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
