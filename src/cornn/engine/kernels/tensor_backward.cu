// The backward pass with products on tensor cores, one block for ROWS sequences, up to 128 neurons. There is one
// barrier per step, and the results of the forward pass are fetched AHEAD steps early. The equations and the arguments
// are those of block_backward.cu.
//
// Lower bound on the time at 128 neurons and 1024 sequences: a step reads the activation and the gradient of y and
// writes delta, 1.5 MiB, which takes 0.33 us at 4.8 TB/s (with gradients of the parameters there are two more reads).
#include "tensor.cuh"

constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;
enum Field { KEPT, GRAD, BEFORE_Z, BEFORE_Y, SPAN = LOOKS_BACK ? 4 : 2 };

struct Memory {
    Vectors delta[2];
    Ahead<SPAN + SPANS> inputs;
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
backward(const float* grad_output, const float* grad_last, const float* kept, const float* trail_z, const float* output,
         const float* state, const float* weight, const float* parameters, const float* timespans,
         const long long* lengths, float* grad_drive, float* grad_state, float* grad_parameters, float* for_spans,
         long long steps, long long groups, long long batch, long long hidden) {
    extern __shared__ __align__(16) unsigned char dynamic[];
    Memory& memory = *reinterpret_cast<Memory*>(dynamic);
    const Place place;
    const int size = (int)hidden;
    const Share share(place, lengths, steps, batch, size);
    const long long rows = groups * batch, stride = rows * hidden;
    const float* constants = parameters + share.group * hidden;
    const Update update[2] = {{constants, groups * hidden, place.neuron, size},
                              {constants, groups * hidden, place.neuron + 1, size}};
    Matrix w_y, w_z;
    load_backward(w_y, w_z, weight + share.group * 2 * hidden * hidden, EARLY ? constants : nullptr, size, place);

    // Positions of the next read and of the next write, which move from the last step to the first.
    const bool given = grad_output != nullptr;
    const int end = share.end;
    const long long first_own = share.row * hidden + place.neuron;
    long long next = first_own + (end - 1) * stride, next_row = share.row + (end - 1) * rows, now = next;

    // The inputs of step n; the state before it is that after step n - 1.
    auto ask = [&](int slot, int n) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const bool one = n >= 0 && share.one[i], other = n >= 0 && share.other[i];
            const long long at = next + Place::step(i) * hidden;
            memory.inputs.ask(slot, KEPT, i, kept + at, one, other);
            memory.inputs.ask(slot, GRAD, i, grad_output + at, one && given, other && given);
            if (SPANS) memory.inputs.ask_one(slot, SPAN, i, timespans + next_row + Place::step(i), one);
            if (LOOKS_BACK) {
                const float* origin = state + first_own + Place::step(i) * hidden;
                const bool known = n > 0 || state;
                memory.inputs.ask(slot, BEFORE_Y, i, n > 0 ? output + at - stride : origin, one && known, other && known);
                memory.inputs.ask(slot, BEFORE_Z, i, n > 0 ? trail_z + at - stride : origin + stride, one && known,
                                  other && known);
            }
        }
        commit();
        next -= stride;
        next_row -= rows;
    };

    Pairs grad_y, grad_z, z;
    Update::Step sum[OWN][2];
    float totals[OWN][2][Update::PARAMETERS];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const long long own = first_own + Place::step(i) * hidden + p;
            const bool valid = p ? share.other[i] : share.one[i];
            grad_y[i][p] = valid && grad_last ? grad_last[own] : 0.f;
            grad_z[i][p] = valid && grad_last ? grad_last[stride + own] : 0.f;
            z[i][p] = 0.f;
            sum[i][p] = Update::Step{};
#pragma unroll
            for (int c = 0; c < Update::PARAMETERS; ++c) totals[i][p][c] = 0.f;
            if (!valid) continue;
            // After the end of all sequences of this block the state no longer changes.
            for (long long n = steps - 1; n >= end; --n) {
                if (given) grad_y[i][p] += grad_output[own + n * stride];
                grad_drive[own + n * stride] = 0.f;
                if (for_spans) for_spans[own + n * stride] = 0.f;
            }
            if (LOOKS_BACK && end > 0) z[i][p] = trail_z[own + (end - 1) * stride];
        }
        const float nothing[2] = {0.f, 0.f};
        publish(memory.delta[0], place, i, nothing);
    }
    for (int k = 0; k < AHEAD; ++k) ask(k, end - 1 - k);
    wait<AHEAD - 1>();
    const Update::Step fixed[2] = {update[0].at(1.f), update[1].at(1.f)};
    __syncthreads();

    Sums sums_y, sums_z;
#pragma unroll 1
    for (int k = 0; k < end; ++k) {
        const int n = end - 1 - k, slot = k % AHEAD, from = k % 2, to = 1 - from;
        clear(sums_z);
        clear(sums_y);
        product(sums_z, w_z, memory.delta[from], place);
        if (!EARLY) product(sums_y, w_y, memory.delta[from], place);
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const bool live = n < share.length[i];
            const float2 kept_now = memory.inputs.get(slot, KEPT, i), grad_now = memory.inputs.get(slot, GRAD, i);
            const float span = SPANS ? memory.inputs.get(slot, SPAN, i).x : 1.f;
            float2 before_y = make_float2(0.f, 0.f), before_z = make_float2(0.f, 0.f);
            if (LOOKS_BACK) {
                before_y = memory.inputs.get(slot, BEFORE_Y, i);
                before_z = memory.inputs.get(slot, BEFORE_Z, i);
            }
            float delta[2], for_span[2] = {0.f, 0.f};
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                const Update::Step step = SPANS ? update[p].at(span) : fixed[p];
                const Update::Before before = {p ? before_y.y : before_y.x, p ? before_z.y : before_z.x};
                const float activation = p ? kept_now.y : kept_now.x;
                grad_y[i][p] += p ? grad_now.y : grad_now.x;
                if (!EARLY) grad_y[i][p] += total(sums_y, i, p);
                float total_z = grad_z[i][p];
                delta[p] = Update::adjoint(step, activation, before, total(sums_z, i, p), grad_y[i][p], total_z);
                if (!live) delta[p] = 0.f;
                if (live) {
                    if (FOR_PARAMETERS && !SPANS) {
                        Update::add(sum[i][p], step, activation, before, total_z);
                        Update::add_late(sum[i][p], z[i][p], grad_y[i][p]);
                    }
                    if (FOR_PARAMETERS && SPANS) {
                        Update::Step one{};
                        float terms[Update::PARAMETERS];
                        Update::add(one, step, activation, before, total_z);
                        Update::add_late(one, z[i][p], grad_y[i][p]);
                        update[p].gradients(one, span, terms, for_span[p]);
#pragma unroll
                        for (int c = 0; c < Update::PARAMETERS; ++c) totals[i][p][c] += terms[c];
                    }
                    grad_z[i][p] = total_z;
                    Update::carry(step, activation, grad_y[i][p], grad_z[i][p]);
                }
            }
            publish(memory.delta[to], place, i, delta);
            const long long at = now + Place::step(i) * hidden;
            store2(grad_drive + at, delta[0], delta[1], share.one[i], share.other[i]);
            if (FOR_PARAMETERS && SPANS && for_spans)
                store2(for_spans + at, for_span[0], for_span[1], share.one[i], share.other[i]);
        }
        if (EARLY) {
            // Add the product to the gradient of y, which nothing has needed so far. After a sequence's end it is 0.
            product(sums_y, w_y, memory.delta[from], place);
#pragma unroll
            for (int i = 0; i < OWN; ++i)
#pragma unroll
                for (int p = 0; p < 2; ++p) {
                    const float for_y = total(sums_y, i, p);
                    grad_y[i][p] += for_y;
                    if (FOR_PARAMETERS) Update::add_late(sum[i][p], z[i][p], for_y);
                }
        }
        if (LOOKS_BACK) {
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const float2 before_z = memory.inputs.get(slot, BEFORE_Z, i);
                z[i][0] = before_z.x, z[i][1] = before_z.y;
            }
        }
        now -= stride;
        ask(slot, n - AHEAD);
        wait<AHEAD - 1>();
        __syncthreads();
    }

    // The products of the first step's delta, for the gradient of the initial state.
    clear(sums_y);
    clear(sums_z);
    product(sums_z, w_z, memory.delta[end % 2], place);
    product(sums_y, w_y, memory.delta[end % 2], place);
#pragma unroll
    for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            if (!(p ? share.other[i] : share.one[i])) continue;
            const long long own = first_own + Place::step(i) * hidden + p;
            const float for_y = total(sums_y, i, p), for_z = total(sums_z, i, p);
            if (grad_state) {
                grad_state[own] = grad_y[i][p] + for_y;
                grad_state[stride + own] = grad_z[i][p] + (EARLY ? fmaf(-fixed[p].dt, for_y, for_z) : for_z);
            }
            if (FOR_PARAMETERS) {
                float none;
                // Read again: registers are scarce in the loop.
                const Update again(constants, groups * hidden, place.neuron + p, size);
                if (!SPANS) again.gradients(sum[i][p], 1.f, totals[i][p], none);
#pragma unroll
                for (int c = 0; c < Update::PARAMETERS; ++c) grad_parameters[c * stride + own] = totals[i][p][c];
            }
        }
}
