// The backward pass, one cluster of blocks for SETS * ROWS sequences, up to 512 neurons. It multiplies by the
// transposes of the matrices of the forward pass, and the blocks exchange delta (the gradient of the drive) instead of
// y and z. The lower bound on its time is that of the forward pass.
//
// With GATHERED, the term W' delta of the gradient of y is not summed over the lanes in every step: each lane keeps
// dt W' delta of the last steps in the sums with which those of U' delta start. The gradient of y without this term
// suffices for everything except the gradients of the parameters.
#include "cluster.cuh"

constexpr int HELD_OF_FIRST = STORED ? QUADS / 2 : QUADS, HELD_OF_SECOND = STORED ? QUADS - QUADS / 2 : QUADS;

// Values of the next step may arrive while a thread still reads delta of this step.
constexpr int BUFFERS = 3;
constexpr bool SCARCE = SPANS || FOR_PARAMETERS;  // registers
constexpr bool GATHERED = EARLY && !STORED && !FOR_PARAMETERS;
constexpr int GATHER = 16;  // steps; with more, the two terms of the gradient of y might cancel and lose digits
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
    SplitWeights<HELD_OF_FIRST> w_y(0);
    SplitWeights<HELD_OF_SECOND> w_z(QUADS - HELD_OF_FIRST);
    Weights whole;
    load_backward(w_y, whole, weight + group * STATES * hidden * hidden, EARLY ? dts : nullptr, size, place);
    put(w_z, whole);
    // A neuron with dt = 0 has a gradient of y too.
    auto scale = [&](int neuron) { return neuron < size && dts[neuron] != 0.f ? dts[neuron] : 1e-12f; };
    float unscaled = 1.f;
    if (GATHERED) {
        unscaled = 1.f / scale(place.neuron);
#pragma unroll
        for (int j = 0; j < TILE; ++j)
#pragma unroll
            for (int column = 0; column < 4 * HELD_OF_FIRST; ++column) w_y.held[j][column] *= scale(place.row(j));
    }

    const unsigned base = shared_address(memory + STORED_BYTES);
    const Messenger messenger(base, first_neuron, place);
    const Reader values(place);
    if (threadIdx.x == 0) {
        for (int b = 0; b < SETS * 2; ++b) {
            barrier_init(base + ARRIVED + 8 * b);
            if (b % 2) barrier_expect(base + ARRIVED + 8 * b, BYTES);
        }
        barrier_publish();
    }
    for (int set = 0; set < SETS; ++set)
        for (int i = threadIdx.x; i < ALL_QUADS * ROWS; i += THREADS)
            shared.delta[set][0][0][i] = make_float4(0.f, 0.f, 0.f, 0.f);

    // Each lane updates one neuron of one sequence of each set.
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
        // After the end of all sequences of this cluster the state no longer changes.
        for (int n = (int)steps - 1; n >= end; --n) {
            if (grad_output) grad_y[i] += grad_output[own + n * stride];
            grad_drive[own + n * stride] = 0.f;
            if (for_spans) for_spans[own + n * stride] = 0.f;
        }
        if (LOOKS_BACK && end > 0) z[i] = trail_z[own + (end - 1) * stride];
    }

    // The inputs of step n, the s-th from the end; the state before it is that after step n - 1.
    const Steps<SCARCE> at{first_own, (unsigned)(stride * sizeof(float))};
    const int given_from = grad_output ? 0 : end;
    auto ask = [&](int s) {
        const int n = end - 1 - s, slot = s % Inputs::AHEAD;
#pragma unroll
        for (int i = 0; i < SETS; ++i) {
            const bool wanted = n >= 0 && valid[i];
            shared.inputs.ask(slot, KEPT, i, at(kept, n) + i * between, wanted);
            shared.inputs.ask(slot, GRAD, i, at(grad_output, n) + i * between, n >= given_from && valid[i]);
            if (SPANS) shared.inputs.ask(slot, SPAN, i, timespans + n * rows + first_row + i * ROWS, wanted);
            if (LOOKS_BACK) {
                const float* origin = state + first_own + i * between;
                const bool known = wanted && (n > 0 || state);
                shared.inputs.ask(slot, BEFORE_Y, i, n > 0 ? at(output, n - 1) + i * between : origin, known);
                shared.inputs.ask(slot, BEFORE_Z, i, n > 0 ? at(trail_z, n - 1) + i * between : origin + stride,
                                  known);
            }
        }
        shared.inputs.asked();
    };
    for (int s = 0; s < Inputs::AHEAD; ++s) ask(s);
    const Update::Step fixed = update.at(1.f);
    Update::Step sum[SETS] = {};
    float totals[SETS][Update::PARAMETERS] = {};
    cluster_barrier();

    static_assert(!GATHERED || SETS == 1, "sums of one set fit in registers");
    Sums sums, gathered;
    float for_y[1], for_z[1];
    clear(gathered);
    auto gather = [&] {
        reduce(for_y, gathered);
        grad_y[0] = fmaf(for_y[0], unscaled, grad_y[0]);
        clear(gathered);
    };
    unsigned thread = threadIdx.x;
    keep(thread);
    // Buffers and barriers of this step and the two after it.
    unsigned now = base, next = now + BYTES, after = next + BYTES;
    unsigned barriers = base + ARRIVED, next_barriers = barriers + 8;
    for (int s = 0; s < end; ++s) {
        const int n = end - 1 - s, turn = s % Inputs::AHEAD;
        shared.inputs.wait();
#pragma unroll
        for (int i = 0; i < SETS; ++i) {
            const unsigned delta = now + i * BUFFERS * BYTES, arrived = barriers + 16 * i;
            // In the first step this is the phase before the barrier's first one, which counts as complete.
            barrier_wait(arrived, (s - 1u) / 2 % 2);
            if (thread == 0) barrier_expect(arrived, BYTES);
            clear(sums);
            if (GATHERED) copy(sums, gathered);
            product<SCARCE>(sums, w_z, delta, values);
            reduce(for_z, sums);
            if (!EARLY) {
                clear(sums);
                product<SCARCE>(sums, w_y, delta, values);
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
            messenger(found, next + i * BUFFERS * BYTES, next_barriers + 16 * i);
            if (valid[i]) at(grad_drive, n)[i * between] = found;
            if (GATHERED) {
                product<SCARCE>(gathered, w_y, delta, values);
            } else if (EARLY) {
                clear(sums);
                product<SCARCE>(sums, w_y, delta, values);
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
            if (FOR_PARAMETERS && SPANS && for_spans && valid[i]) at(for_spans, n)[i * between] = for_span;
            z[i] = before.z;
        }
        if (GATHERED && s % GATHER == GATHER - 1) gather();
        ask(s + Inputs::AHEAD);
        const unsigned free = now, free_barriers = barriers;
        now = next, next = after, after = free;
        barriers = next_barriers, next_barriers = free_barriers;
    }

    // The products of the first step's delta, for the gradient of the initial state.
    if (GATHERED) gather();
#pragma unroll
    for (int i = 0; i < SETS; ++i) {
        const unsigned delta = now + i * BUFFERS * BYTES;
        barrier_wait(barriers + 16 * i, (end - 1u) / 2 % 2);
        clear(sums);
        product<SCARCE>(sums, w_z, delta, values);
        reduce(for_z, sums);
        clear(sums);
        product<SCARCE>(sums, w_y, delta, values);
        reduce(for_y, sums);
        for_y[0] *= unscaled;
        if (!valid[i]) continue;
        const long long own = first_own + i * between;
        if (grad_state) {
            grad_state[own] = grad_y[i] + for_y[0];
            grad_state[stride + own] = grad_z[i] + (EARLY ? fmaf(-fixed.dt, for_y[0], for_z[0]) : for_z[0]);
        }
        if (FOR_PARAMETERS) {
            float none;
            if (!SPANS) update.gradients(sum[i], 1.f, totals[i], none);
#pragma unroll
            for (int p = 0; p < Update::PARAMETERS; ++p) grad_parameters[p * stride + own] = totals[i][p];
        }
    }
    cluster_barrier();
}
