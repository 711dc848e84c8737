// The backward pass, one cluster of blocks for ROWS sequences, up to 512 neurons: the transposes in the registers of the
// cluster, delta (the gradient for the drive) travelling as z does forward.
//
// Floor and estimate as in cluster_forward.cu, less the tanh and plus a second exchange between lanes. A block may
// still read delta of the step before last when the next one comes in, hence more than two buffers.
#include "cluster.cuh"

constexpr int BUFFERS = 4;
constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;

struct Memory {
    Buffer delta[BUFFERS];
    unsigned long long arrived[BUFFERS];
};
constexpr unsigned ARRIVED = BUFFERS * BYTES;
extern __shared__ __align__(128) unsigned char memory[];

struct Fetched {
    float kept, grad, span;
    Update::Before before;
};

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
    for (int i = threadIdx.x; i < ALL_QUADS * ROWS; i += THREADS) shared.delta[0][0][i] = make_float4(0.f, 0.f, 0.f, 0.f);

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

    // What belongs to step n at `position`; the state before it is that after step n - 1.
    auto look = [&](int n, long long position) {
        Fetched f = {0.f, 0.f, 1.f, {0.f, 0.f}};
        if (n < 0 || !valid) return f;
        f.kept = kept[position];
        if (grad_output) f.grad = grad_output[position];
        if (SPANS) f.span = timespans[row + n * rows];
        if (LOOKS_BACK) {
            f.before.y = n ? output[position - stride] : state[own];
            f.before.z = n ? trail_z[position - stride] : state[stride + own];
        }
        return f;
    };
    long long at = own + (end - 1) * stride;
    Fetched ahead = look(end - 1, at);
    const Update::Step fixed = update.at(1.f);
    Update::Step sum{};
    float totals[Update::PARAMETERS] = {};
    cluster_barrier();

    Sums sums;
    float for_y[OWN], for_z[OWN];
    for (int s = 0; s < end; ++s) {
        const int n = end - 1 - s, b = s % BUFFERS, next = (s + 1) % BUFFERS;
        const Fetched now = ahead;
        ahead = look(n - 1, at - stride);
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
        const Update::Step step = SPANS ? update.at(now.span) : fixed;
        const bool live = n < length;
        float total_y = grad_y + now.grad + (EARLY ? 0.f : for_y[0]), total_z = grad_z;
        float found = Update::adjoint(step, now.kept, now.before, for_z[0], total_y, total_z);
        if (!live) found = 0.f;
        messenger(found, next * BYTES, ARRIVED + 8 * next);
        if (valid) grad_drive[at] = found;
        if (EARLY) {
            clear(sums);
            product(sums, w_y, shared.delta[b], place);
            reduce(for_y, sums);
            total_y += for_y[0];
        }
        float for_span = 0.f;
        grad_y = total_y;
        if (live) {
            if (FOR_PARAMETERS && !SPANS) Update::add(sum, now.kept, now.before, z, total_y, total_z);
            if (FOR_PARAMETERS && SPANS) {
                Update::Step one{};
                float terms[Update::PARAMETERS];
                Update::add(one, now.kept, now.before, z, total_y, total_z);
                update.gradients(one, now.span, terms, for_span);
#pragma unroll
                for (int p = 0; p < Update::PARAMETERS; ++p) totals[p] += terms[p];
            }
            grad_z = total_z;
            Update::carry(step, grad_y, grad_z);
        }
        if (FOR_PARAMETERS && SPANS && for_spans && valid) for_spans[at] = for_span;
        z = now.before.z;
        at -= stride;
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
