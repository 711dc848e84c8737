// The backward pass, one cluster of blocks for ROWS sequences, up to 512 neurons: the transposes in the registers of
// the cluster, delta (the gradient for the drive) travelling as z does forward.
//
// Floor and estimate as in cluster_forward.cu, less the tanh and plus a second exchange between lanes. A block may
// still read delta of the step before last when the next one comes in, hence more than two buffers.
#include "cluster.cuh"

constexpr int BUFFERS = 4;
constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;

enum Field { KEPT, GRAD, BEFORE_Z, BEFORE_Y, SPAN = LOOKS_BACK ? 4 : 2 };
typedef Ahead<SPAN + SPANS> Inputs;

struct Memory {
    Buffer delta[BUFFERS];
    unsigned long long arrived[BUFFERS];
    Inputs inputs;
};
constexpr unsigned ARRIVED = BUFFERS * BYTES;
extern __shared__ __align__(128) unsigned char memory[];

// Arguments as in block_backward.cu.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
backward(const float* grad_output, const float* grad_last, const float* kept, const float* trail_z, const float* output,
         const float* state, const float* weight, const float* parameters, const float* timespans,
         const long long* lengths, float* grad_drive, float* grad_state, float* grad_parameters, float* for_spans,
         long long steps, long long groups, long long batch, long long hidden) {
    static_assert(STATES == 2, "written for two states");
    Memory& shared = *reinterpret_cast<Memory*>(memory);
    const int first_neuron = cluster_rank() * BAND;
    const Place place(first_neuron);
    const int size = (int)hidden;
    const long long clusters = (batch + ROWS - 1) / ROWS, cluster = blockIdx.x / CLUSTER;
    const long long group = cluster / clusters, first = cluster % clusters * ROWS;
    const long long rows = groups * batch, stride = rows * hidden;
    const int end = longest(lengths ? lengths + group * batch : nullptr, steps, first, batch);
    const float* dts = parameters + group * hidden;

    const Update update(dts, groups * hidden, place.neuron, size);
    Weights w_y, w_z;
    load_backward(w_y, w_z, weight + group * STATES * hidden * hidden, EARLY ? dts : nullptr, size, place);

    const unsigned base = shared_address(memory);
    const Messenger messenger(base, first_neuron, place);
    if (threadIdx.x == 0) {
        for (int b = 0; b < BUFFERS; ++b) {
            barrier_init(base + ARRIVED + 8 * b);
            barrier_expect(base + ARRIVED + 8 * b);
        }
        barrier_publish();
    }
    for (int i = threadIdx.x; i < ALL_QUADS * ROWS; i += THREADS)
        shared.delta[0][0][i] = make_float4(0.f, 0.f, 0.f, 0.f);

    const long long sequence = first + place.sequence(0), row = group * batch + sequence;
    const long long own = row * hidden + place.neuron;
    const bool valid = sequence < batch && place.neuron < size;
    const int length = min(steps, lengths && sequence < batch ? lengths[row] : steps);
    float grad_y = valid && grad_last ? grad_last[own] : 0.f;
    float grad_z = valid && grad_last ? grad_last[stride + own] : 0.f;
    float z = 0.f;
    if (valid) {
        // Past the end of all sequences of this cluster the state stands still.
        for (int n = (int)steps - 1; n >= end; --n) {
            if (grad_output) grad_y += grad_output[own + n * stride];
            grad_drive[own + n * stride] = 0.f;
            if (for_spans) for_spans[own + n * stride] = 0.f;
        }
        if (LOOKS_BACK && end > 0) z = trail_z[own + (end - 1) * stride];
    }

    // What belongs to step n, the s-th from the end; the state before it is that after step n - 1.
    const long long last_at = own + (end - 1) * stride;
    const float *next_kept = kept + last_at, *next_grad = grad_output + last_at;
    const float *next_y = output + last_at - stride, *next_z = trail_z + last_at - stride;
    float *to_drive = grad_drive + last_at, *to_span = for_spans + last_at;
    const bool given = grad_output != nullptr;
    auto ask = [&](int s) {
        const int n = end - 1 - s, slot = s % Inputs::AHEAD;
        const bool wanted = n >= 0 && valid;
        shared.inputs.ask(slot, KEPT, 0, next_kept, wanted);
        shared.inputs.ask(slot, GRAD, 0, next_grad, wanted && given);
        if (SPANS) shared.inputs.ask(slot, SPAN, 0, timespans + row + n * rows, wanted);
        if (LOOKS_BACK) {
            shared.inputs.ask(slot, BEFORE_Y, 0, n > 0 ? next_y : state + own, wanted);
            shared.inputs.ask(slot, BEFORE_Z, 0, n > 0 ? next_z : state + stride + own, wanted);
        }
        shared.inputs.asked();
        next_kept -= stride;
        next_grad -= stride;
        next_y -= stride;
        next_z -= stride;
    };
    for (int s = 0; s < Inputs::AHEAD; ++s) ask(s);
    const Update::Step fixed = update.at(1.f);
    Update::Step sum{};
    float totals[Update::PARAMETERS] = {};
    cluster_barrier();

    Sums sums;
    float for_y[OWN], for_z[OWN];
    for (int s = 0; s < end; ++s) {
        const int n = end - 1 - s, b = s % BUFFERS, next = (s + 1) % BUFFERS;
        if (s > 0) {
            barrier_wait(base + ARRIVED + 8 * b, (s - 1) / BUFFERS % 2);
            if (threadIdx.x == 0) barrier_expect(base + ARRIVED + 8 * b);
        }
        clear(sums);
        product(sums, w_z, shared.delta[b], place);
        reduce(for_z, sums);
        if (!EARLY) {
            clear(sums);
            product(sums, w_y, shared.delta[b], place);
            reduce(for_y, sums);
        }
        shared.inputs.wait();
        const int turn = s % Inputs::AHEAD;
        const float kept_now = shared.inputs.get(turn, KEPT, 0), grad_now = shared.inputs.get(turn, GRAD, 0);
        const float span = SPANS ? shared.inputs.get(turn, SPAN, 0) : 1.f;
        Update::Before before = {0.f, 0.f};
        if (LOOKS_BACK) before = {shared.inputs.get(turn, BEFORE_Y, 0), shared.inputs.get(turn, BEFORE_Z, 0)};
        const Update::Step step = SPANS ? update.at(span) : fixed;
        const bool live = n < length;
        float total_y = grad_y + grad_now + (EARLY ? 0.f : for_y[0]), total_z = grad_z;
        float found = Update::adjoint(step, kept_now, before, for_z[0], total_y, total_z);
        if (!live) found = 0.f;
        messenger(found, next * BYTES, ARRIVED + 8 * next);
        if (valid) *to_drive = found;
        if (EARLY) {
            clear(sums);
            product(sums, w_y, shared.delta[b], place);
            reduce(for_y, sums);
            total_y += for_y[0];
        }
        float for_span = 0.f;
        grad_y = total_y;
        if (live) {
            if (FOR_PARAMETERS && !SPANS) {
                Update::add(sum, kept_now, before, total_z);
                Update::add_late(sum, z, total_y);
            }
            if (FOR_PARAMETERS && SPANS) {
                Update::Step one{};
                float terms[Update::PARAMETERS];
                Update::add(one, kept_now, before, total_z);
                Update::add_late(one, z, total_y);
                update.gradients(one, span, terms, for_span);
#pragma unroll
                for (int p = 0; p < Update::PARAMETERS; ++p) totals[p] += terms[p];
            }
            grad_z = total_z;
            Update::carry(step, grad_y, grad_z);
        }
        if (FOR_PARAMETERS && SPANS && for_spans && valid) *to_span = for_span;
        z = before.z;
        to_drive -= stride;
        to_span -= stride;
        ask(s + Inputs::AHEAD);
    }

    // The products of the first step's delta, for the gradient of the initial state.
    if (end > 0) barrier_wait(base + ARRIVED + 8 * (end % BUFFERS), (end - 1) / BUFFERS % 2);
    clear(sums);
    product(sums, w_z, shared.delta[end % BUFFERS], place);
    reduce(for_z, sums);
    clear(sums);
    product(sums, w_y, shared.delta[end % BUFFERS], place);
    reduce(for_y, sums);
    if (valid) {
        grad_state[own] = grad_y + for_y[0];
        grad_state[stride + own] = grad_z + (EARLY ? fmaf(-fixed.h, for_y[0], for_z[0]) : for_z[0]);
        if (FOR_PARAMETERS) {
            float none;
            if (!SPANS) update.gradients(sum, 1.f, totals, none);
#pragma unroll
            for (int p = 0; p < Update::PARAMETERS; ++p) grad_parameters[p * stride + own] = totals[p];
        }
    }
    cluster_barrier();
}
