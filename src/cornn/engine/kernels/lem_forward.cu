// The forward pass of LEM, one block per sequence:
//
//     d1 = dt sigma(W_1 y + drive), d2 = dt sigma(W_2 y + drive), z += d2 (tanh(W_z y + drive) - z)
//     y += d1 (tanh(W_y z + drive) - y), with the new z
//
// drive: (time, batch, 4, size). state, last: (2, batch, size), y and z. weight: (3, size, size), W_1, W_2 and W_z.
// weight_zy: (size, size), W_y. dt: one number. output: (time, batch, size), y of every step, or null.
// kept: (time, batch, 4, size), d1, d2 and both candidates, and memory: (time, batch, size), z of every step; both for
// the backward pass, or both null.
#include "lem.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) lem_forward(
    const float* drive, const float* state, const float* weight, const float* weight_zy, const float* dt,
    float* output, float* kept, float* memory, float* last, long long steps, long long batch, long long size
) {
    extern __shared__ float4 dynamic[];
    __shared__ __align__(16) float y[SIZE], z[SIZE];
    __shared__ float spans[2][SIZE];  // d1 and d2
    const int gate = threadIdx.x / SIZE, neuron = threadIdx.x % SIZE;
    const bool taken = neuron < size;
    const long long sequence = blockIdx.x, at = sequence * size + neuron;
    const float* const first = gate == OF_Y ? weight_zy + neuron * size : weight + (gate * size + neuron) * size;
    const Row row(first, 1, size, taken, dynamic);
    const float longest = *dt;
    // For threads of the gates of y and z: the neuron's state.
    float own = taken && gate >= OF_Z ? state[(gate == OF_Y ? 0 : batch * size) + at] : 0.f;
    if (gate == OF_Y) y[neuron] = own;
    if (gate == OF_Z) z[neuron] = own;
    __syncthreads();

    const float* driven = drive + (sequence * GATES + gate) * size + neuron;
    const long long stride = batch * GATES * size;
    float next = taken && steps ? *driven : 0.f;
    for (long long step = 0; step < steps; ++step) {
        const float now = next;
        // Loaded one step early, while this step is computed.
        if (taken && step + 1 < steps) next = driven[(step + 1) * stride];
        float found = 0.f;
        if (gate != OF_Y) {
            const float pre = now + row.times(y);
            found = gate == OF_Z ? accurate_tanh(pre) : longest * logistic(pre);
            if (gate < OF_Z) spans[gate][neuron] = found;
        }
        __syncthreads();
        if (gate == OF_Z) z[neuron] = own += spans[PACE_OF_Z][neuron] * (found - own);
        __syncthreads();
        if (gate == OF_Y) {
            found = accurate_tanh(now + row.times(z));
            y[neuron] = own += spans[PACE_OF_Y][neuron] * (found - own);
        }
        if (taken) {
            const long long here = step * batch * size + at;
            if (kept) kept[step * stride + (sequence * GATES + gate) * size + neuron] = found;
            if (gate == OF_Y && output) output[here] = own;
            if (gate == OF_Z && kept) memory[here] = own;
        }
        __syncthreads();
    }
    if (taken && gate >= OF_Z) last[(gate == OF_Y ? 0 : batch * size) + at] = own;
}
