// The backward pass, a grid of blocks, for layers above 512 neurons. See grid.cuh.
#include "grid.cuh"

constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;

// Arguments as in block_backward.cu, and the last four as in grid_forward.cu.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
backward(const float* grad_output, const float* grad_last, const float* kept, const float* trail_z, const float* output,
         const float* state, const float* weight, const float* parameters, const float* timespans,
         const long long* lengths, float* grad_drive, float* grad_state, float* grad_parameters, float* for_spans,
         long long steps, long long groups, long long batch, long long hidden, float* values, unsigned* counters,
         long long group, long long begin) {
    Memory& shared = *reinterpret_cast<Memory*>(memory);
    Team team(values, counters, hidden, begin);
    const int size = (int)hidden;
    const long long rows = groups * batch, stride = rows * hidden;
    const int end = longest(lengths ? lengths + group * batch : nullptr, steps, team.first, batch);
    const float* dts = parameters + group * hidden;

    const float* matrix = weight + group * 2 * hidden * hidden;
    Weights weights;
    load<true>(shared, weights, [&](int second, int row, int column) {
        const int neuron = team.first_neuron + row;
        if (neuron >= size || column >= size) return 0.f;
        return matrix[column * 2 * hidden + (second ? 0 : hidden) + neuron];
    });

    float grad_y[OWN], grad_z[OWN], z[OWN];
    Residue residue[OWN];
    Pairs pairs(team, lengths, steps, group, batch, hidden);
    const auto& [length, own] = pairs;
    Update::Step sum[OWN] = {};
    float totals[OWN][Update::PARAMETERS] = {};
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        grad_y[i] = pairs.valid(i) && grad_last ? grad_last[own[i]] : 0.f;
        grad_z[i] = pairs.valid(i) && grad_last ? grad_last[stride + own[i]] : 0.f;
        z[i] = 0.f;
        if (!pairs.valid(i)) continue;
        // After the end of all sequences of this block the state no longer changes.
        for (long long n = steps - 1; n >= end; --n) {
            if (grad_output) grad_y[i] += grad_output[own[i] + n * stride];
            grad_drive[own[i] + n * stride] = 0.f;
            if (for_spans) for_spans[own[i] + n * stride] = 0.f;
        }
        if (LOOKS_BACK && end > 0) z[i] = trail_z[own[i] + (end - 1) * stride];
    }
    __syncthreads();

    float for_z[OWN], for_y[OWN];
    for (int s = 0; s < end; ++s) {
        const int n = end - 1 - s;
        pairs.hide();
        float kept_now[OWN], given[OWN], span[OWN];
        Update::Before before[OWN];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const long long at = own[i] + n * stride;
            kept_now[i] = pairs.valid(i) ? kept[at] : 0.f;
            given[i] = pairs.valid(i) && grad_output ? grad_output[at] : 0.f;
            span[i] = SPANS && pairs.valid(i) ? timespans[n * rows + own[i] / hidden] : 1.f;
            before[i] = {0.f, 0.f};
            if (LOOKS_BACK && pairs.valid(i)) {
                if (n > 0) before[i] = {output[at - stride], trail_z[at - stride]};
                else if (state) before[i] = {state[own[i]], state[stride + own[i]]};
            }
        }
        if (s > 0) {
            team.await();
            multiply(shared, weights, team.slot(s - 1), for_z, for_y);
        } else {
#pragma unroll
            for (int i = 0; i < OWN; ++i) for_z[i] = for_y[i] = 0.f;
        }
        float* next = team.slot(s);
        float found[OWN], for_span[OWN];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            found[i] = for_span[i] = 0.f;
            if (!pairs.valid(i)) continue;
            const int neuron = pairs.neuron(team, i);
            const Update update(dts, groups * hidden, neuron, size);
            const Update::Step step = update.at(span[i]);
            const float total_y = grad_y[i] + given[i] + for_y[i];
            float total_z = grad_z[i];
            grad_y[i] = total_y;
            if (n < length[i]) {
                found[i] = Update::adjoint(step, kept_now[i], before[i], for_z[i], total_y, total_z);
                if (FOR_PARAMETERS && !SPANS) {
                    Update::add(sum[i], step, kept_now[i], before[i], total_z);
                    Update::add_late(sum[i], z[i], total_y);
                }
                if (FOR_PARAMETERS && SPANS) {
                    Update::Step one{};
                    float terms[Update::PARAMETERS];
                    Update::add(one, step, kept_now[i], before[i], total_z);
                    Update::add_late(one, z[i], total_y);
                    update.gradients(one, span[i], terms, for_span[i]);
#pragma unroll
                    for (int p = 0; p < Update::PARAMETERS; ++p) totals[i][p] += terms[p];
                }
                grad_z[i] = total_z;
                Update::carry(step, kept_now[i], grad_y[i], grad_z[i]);
            }
            z[i] = before[i].z;
            store(next, neuron, pairs.sequence(i), found[i], residue[i]);
        }
        team.publish();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            if (!pairs.valid(i)) continue;
            const long long at = own[i] + n * stride;
            grad_drive[at] = found[i];
            if (FOR_PARAMETERS && SPANS && for_spans) for_spans[at] = for_span[i];
        }
    }

    // The products of the first step's delta, for the gradient of the initial state.
#pragma unroll
    for (int i = 0; i < OWN; ++i) for_z[i] = for_y[i] = 0.f;
    if (end > 0 && grad_state) {
        team.await();
        multiply(shared, weights, team.slot(end - 1), for_z, for_y);
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!pairs.valid(i)) continue;
        if (grad_state) {
            grad_state[own[i]] = grad_y[i] + for_y[i];
            grad_state[stride + own[i]] = grad_z[i] + for_z[i];
        }
        if (FOR_PARAMETERS) {
            const Update update(dts, groups * hidden, pairs.neuron(team, i), size);
            float none;
            if (!SPANS) update.gradients(sum[i], 1.f, totals[i], none);
#pragma unroll
            for (int p = 0; p < Update::PARAMETERS; ++p) grad_parameters[p * stride + own[i]] = totals[i][p];
        }
    }
}
