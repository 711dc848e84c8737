// The backward pass of LEM, one block per sequence. With a, the gradients of the four pre-activations:
//
//     a_y = gy d1 (1 - cy^2),  a_1 = gy (cy - y) d1 (1 - d1 / dt),  gz += W_y^T a_y
//     a_z = gz d2 (1 - cz^2),  a_2 = gz (cz - z) d2 (1 - d2 / dt)
//     gy <- (1 - d1) gy + W_1^T a_1 + W_2^T a_2 + W_z^T a_z,  gz <- (1 - d2) gz        y, z before the step
//
// grad_output: (time, batch, size), or null. grad_last, grad_state: (2, batch, size), y and z; grad_last may be null.
// output, kept, memory: of the forward pass. grad_drive: (time, batch, 4, size), the a. The rest as in lem_forward.cu.
#include "lem.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) lem_backward(
    const float* grad_output, const float* grad_last, const float* state, const float* weight, const float* weight_zy,
    const float* dt, const float* output, const float* kept, const float* memory, float* grad_drive, float* grad_state,
    long long steps, long long batch, long long size
) {
    extern __shared__ float4 dynamic[];
    // Used for y and then for z, each with its time step: a step has finished with the one before it starts the other.
    // With 128 neurons the smallest GPUs have only 3,072 bytes left in addition to the weights.
    __shared__ __align__(16) float a[2][SIZE];
    __shared__ float products[3][SIZE];
    const int gate = threadIdx.x / SIZE, neuron = threadIdx.x % SIZE;
    const bool taken = neuron < size, owner = taken && gate >= OF_Z;
    const long long sequence = blockIdx.x, at = sequence * size + neuron;
    // A column of the matrix: the contributions of all neurons to this one's gradient.
    const float* const top = gate == OF_Y ? weight_zy + neuron : weight + gate * size * size + neuron;
    const Row column(top, size, size, taken, dynamic);
    const float inverse = 1.f / *dt;
    const long long mine = (gate == OF_Y ? 0 : batch * size) + at;  // in a state
    const Gate pace = gate == OF_Y ? PACE_OF_Y : PACE_OF_Z;  // the time step of the thread's neuron
    const int slot = gate >= OF_Z ? 0 : 1;
    const float* states = gate == OF_Y ? output : memory;
    const long long stride = batch * size;
    // Offsets of the current step in arrays with one value per neuron, and with one per neuron and gate.
    long long one = steps * stride + at, four = GATES * (steps * stride + sequence * size) + neuron;

    // Of a step: the incoming gradient, the weight of the candidate, the candidate, and the state before.
    struct Step { float incoming, span, candidate, before; };
    const auto fetched = [&](long long steps_left) {
        Step found = {0.f, 0.f, 0.f, 0.f};
        if (!owner || !steps_left) return found;
        if (gate == OF_Y && grad_output) found.incoming = grad_output[one - stride];
        found.span = kept[four - GATES * stride + pace * size];
        found.candidate = kept[four - GATES * stride + gate * size];
        found.before = steps_left > 1 ? states[one - 2 * stride] : state[mine];
        return found;
    };
    float gradient = owner && grad_last ? grad_last[mine] : 0.f;
    Step next = fetched(steps);
    const auto back = [&](const Step& now) {
        const float for_candidate = gradient * now.span * fmaf(-now.candidate, now.candidate, 1.f);
        const float for_span = gradient * (now.candidate - now.before) * now.span * fmaf(-now.span, inverse, 1.f);
        a[0][neuron] = for_candidate;
        a[1][neuron] = for_span;
        if (taken) {
            grad_drive[four + gate * size] = for_candidate;
            grad_drive[four + pace * size] = for_span;
        }
        gradient *= 1.f - now.span;
    };
    for (long long left = steps; left; --left) {
        const Step now = next;
        one -= stride, four -= GATES * stride;
        next = fetched(left - 1);
        if (gate == OF_Y) {
            gradient += now.incoming;
            back(now);
        }
        __syncthreads();
        if (gate == OF_Y || gate == PACE_OF_Y) products[slot][neuron] = column.times(a[slot]);
        __syncthreads();
        if (gate == OF_Z) {
            gradient += products[0][neuron];
            back(now);
        }
        __syncthreads();
        if (gate == OF_Z || gate == PACE_OF_Z) products[gate == OF_Z ? 0 : 2][neuron] = column.times(a[slot]);
        __syncthreads();
        if (gate == OF_Y) gradient += products[0][neuron] + products[1][neuron] + products[2][neuron];
    }
    if (owner) grad_state[mine] = gradient;
}
