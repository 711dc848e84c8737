// The backward pass, one cluster of blocks for SETS * ROWS sequences, up to 512 neurons: the transposes where the forward pass
// has the matrices, delta (the gradient for the drive) travelling as y and z do there. The floor is the same.
#include "cluster.cuh"

// What comes in for the next step may find a thread still at work with this one's delta.
constexpr int BUFFERS = 3;
constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;

enum Field { KEPT, GRAD, BEFORE_Z, BEFORE_Y, SPAN = LOOKS_BACK ? 4 : 2 };
typedef Ahead<SPAN + SPANS, SETS> Inputs;

struct Memory {
    Buffer delta[SETS][BUFFERS];
    unsigned long long arrived[8];
    Inputs inputs;
};
constexpr unsigned ARRIVED = SETS * BUFFERS * BYTES;

// Arguments as in block_backward.cu.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
backward(const float* grad_output, const float* grad_last, const float* kept, const float* trail_z, const float* output,
         const float* state, const float* weight, const float* parameters, const float* timespans,
         const long long* lengths, float* grad_drive, float* grad_state, float* grad_parameters, float* for_spans,
         long long steps, long long groups, long long batch, long long hidden) {
    static_assert(STATES == 2, "written for two states");
    Memory& shared = *reinterpret_cast<Memory*>(memory + STORED_BYTES);
    const int first_neuron = cluster_rank() * BAND;
    const Place place(first_neuron);
    const int size = (int)hidden;
    const long long clusters = (batch + SETS * ROWS - 1) / (SETS * ROWS), cluster = blockIdx.x / CLUSTER;
    const long long group = cluster / clusters, first = cluster % clusters * SETS * ROWS;
    const long long rows = groups * batch, stride = rows * hidden;
    const int end = longest(lengths ? lengths + group * batch : nullptr, steps, first, batch);
    const float* dts = parameters + group * hidden;

    const Update update(dts, groups * hidden, place.neuron, size);
    Weights w_z;
    FirstWeights w_y;
    w_y.stored = reinterpret_cast<float4(*)[TILE][THREADS]>(memory);
    load_backward(w_y, w_z, weight + group * STATES * hidden * hidden, EARLY ? dts : nullptr, size, place);

    const unsigned base = shared_address(memory + STORED_BYTES);
    const Messenger messenger(base, first_neuron, place);
    const Reader values(place);
    if (threadIdx.x == 0) {
        for (int b = 0; b < SETS * BUFFERS; ++b) {
            barrier_init(base + ARRIVED + 8 * b);
            barrier_expect(base + ARRIVED + 8 * b, BYTES);
        }
        barrier_publish();
    }
    for (int set = 0; set < SETS; ++set)
        for (int i = threadIdx.x; i < ALL_QUADS * ROWS; i += THREADS)
            shared.delta[set][0][0][i] = make_float4(0.f, 0.f, 0.f, 0.f);

    // What a lane owns: one neuron of one sequence of each set.
    const int between = ROWS * (int)hidden;
    const int first_row = (int)(group * batch + first) + place.sequence(0);
    const long long first_own = first_row * hidden + place.neuron;
    float grad_y[SETS], grad_z[SETS], z[SETS];
    bool valid[SETS];
    int length[SETS];
#pragma unroll
    for (int i = 0; i < SETS; ++i) {
        const bool inside = first + i * ROWS + place.sequence(0) < batch;
        const long long own = first_own + i * between;
        valid[i] = inside && place.neuron < size;
        length[i] = min(steps, lengths && inside ? lengths[first_row + i * ROWS] : steps);
        grad_y[i] = valid[i] && grad_last ? grad_last[own] : 0.f;
        grad_z[i] = valid[i] && grad_last ? grad_last[stride + own] : 0.f;
        z[i] = 0.f;
        if (!valid[i]) continue;
        // Past the end of all sequences of this cluster the state stands still.
        for (int n = (int)steps - 1; n >= end; --n) {
            if (grad_output) grad_y[i] += grad_output[own + n * stride];
            grad_drive[own + n * stride] = 0.f;
            if (for_spans) for_spans[own + n * stride] = 0.f;
        }
        if (LOOKS_BACK && end > 0) z[i] = trail_z[own + (end - 1) * stride];
    }

    // What belongs to step n, the s-th from the end; the state before it is that after step n - 1.
    long long at = first_own + (end - 1) * stride;
    const bool given = grad_output != nullptr;
    auto ask = [&](int s, long long ahead) {
        const int n = end - 1 - s, slot = s % Inputs::AHEAD;
#pragma unroll
        for (int i = 0; i < SETS; ++i) {
            const bool wanted = n >= 0 && valid[i];
            shared.inputs.ask(slot, KEPT, i, kept + ahead + i * between, wanted);
            shared.inputs.ask(slot, GRAD, i, grad_output + ahead + i * between, wanted && given);
            if (SPANS) shared.inputs.ask(slot, SPAN, i, timespans + n * rows + first_row + i * ROWS, wanted);
            if (LOOKS_BACK) {
                const float* origin = state + first_own + i * between;
                const long long before = ahead - stride + i * between;
                shared.inputs.ask(slot, BEFORE_Y, i, n > 0 ? output + before : origin, wanted);
                shared.inputs.ask(slot, BEFORE_Z, i, n > 0 ? trail_z + before : origin + stride, wanted);
            }
        }
        shared.inputs.asked();
    };
    for (int s = 0; s < Inputs::AHEAD; ++s) ask(s, at - s * stride);
    const Update::Step fixed = update.at(1.f);
    Update::Step sum[SETS] = {};
    float totals[SETS][Update::PARAMETERS] = {};
    cluster_barrier();

    Sums sums;
    float for_y[1], for_z[1];
    for (int s = 0; s < end; ++s) {
        const int n = end - 1 - s, turn = s % Inputs::AHEAD;
        const unsigned now = (unsigned)s % BUFFERS, next = (s + 1u) % BUFFERS, parity = (s - 1u) / BUFFERS % 2;
        shared.inputs.wait();
#pragma unroll
        for (int i = 0; i < SETS; ++i) {
            const unsigned delta = (i * BUFFERS + now) * BYTES, arrived = ARRIVED + 8 * i * BUFFERS;
            if (s > 0) {
                barrier_wait(base + arrived + 8 * now, parity);
                if (threadIdx.x == 0) barrier_expect(base + arrived + 8 * now, BYTES);
            }
            clear(sums);
            product(sums, w_z, delta, values);
            reduce(for_z, sums);
            if (!EARLY) {
                clear(sums);
                product(sums, w_y, delta, values);
                reduce(for_y, sums);
            }
            const float kept_now = shared.inputs.get(turn, KEPT, i);
            const float span = SPANS ? shared.inputs.get(turn, SPANS * SPAN, i) : 1.f;
            Update::Before before = {0.f, 0.f};
            if (LOOKS_BACK) before = {shared.inputs.get(turn, BEFORE_Y, i), shared.inputs.get(turn, BEFORE_Z, i)};
            const Update::Step step = SPANS ? update.at(span) : fixed;
            const bool live = n < length[i];
            float total_y = grad_y[i] + shared.inputs.get(turn, GRAD, i) + (EARLY ? 0.f : for_y[0]);
            float total_z = grad_z[i];
            float found = Update::adjoint(step, kept_now, before, for_z[0], total_y, total_z);
            if (!live) found = 0.f;
            messenger(found, (i * BUFFERS + next) * BYTES, arrived + 8 * next);
            if (valid[i]) grad_drive[at + i * between] = found;
            if (EARLY) {
                clear(sums);
                product(sums, w_y, delta, values);
                reduce(for_y, sums);
                total_y += for_y[0];
            }
            float for_span = 0.f;
            grad_y[i] = total_y;
            if (live) {
                if (FOR_PARAMETERS && !SPANS) {
                    Update::add(sum[i], step, kept_now, before, total_z);
                    Update::add_late(sum[i], z[i], total_y);
                }
                if (FOR_PARAMETERS && SPANS) {
                    Update::Step one{};
                    float terms[Update::PARAMETERS];
                    Update::add(one, step, kept_now, before, total_z);
                    Update::add_late(one, z[i], total_y);
                    update.gradients(one, span, terms, for_span);
#pragma unroll
                    for (int p = 0; p < Update::PARAMETERS; ++p) totals[i][p] += terms[p];
                }
                grad_z[i] = total_z;
                Update::carry(step, kept_now, grad_y[i], grad_z[i]);
            }
            if (FOR_PARAMETERS && SPANS && for_spans && valid[i]) for_spans[at + i * between] = for_span;
            z[i] = before.z;
        }
        ask(s + Inputs::AHEAD, at - Inputs::AHEAD * stride);
        at -= stride;
    }

    // The products of the first step's delta, for the gradient of the initial state.
#pragma unroll
    for (int i = 0; i < SETS; ++i) {
        const unsigned b = i * BUFFERS + (unsigned)end % BUFFERS, delta = b * BYTES;
        if (end > 0) barrier_wait(base + ARRIVED + 8 * b, (end - 1u) / BUFFERS % 2);
        clear(sums);
        product(sums, w_z, delta, values);
        reduce(for_z, sums);
        clear(sums);
        product(sums, w_y, delta, values);
        reduce(for_y, sums);
        if (!valid[i]) continue;
        const long long own = first_own + i * between;
        grad_state[own] = grad_y[i] + for_y[0];
        grad_state[stride + own] = grad_z[i] + (EARLY ? fmaf(-fixed.h, for_y[0], for_z[0]) : for_z[0]);
        if (FOR_PARAMETERS) {
            float none;
            if (!SPANS) update.gradients(sum[i], 1.f, totals[i], none);
#pragma unroll
            for (int p = 0; p < Update::PARAMETERS; ++p) grad_parameters[p * stride + own] = totals[i][p];
        }
    }
    cluster_barrier();
}
