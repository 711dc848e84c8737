// The forward pass, a grid of blocks, for layers above 512 neurons. See grid.cuh.
//
// Lower bound on the time: 2 * SIZE * ROWS * SEQUENCES multiply-adds per block and step at 128 per clock.
#include "grid.cuh"

// Arguments as in block_forward.cu; for_y is W y_0, `values` and `counters` are zero at the start, and `group` and
// `begin` select the sequences of this launch.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail,
        long long steps, long long groups, long long batch, long long hidden, const float* for_y, float* values,
        unsigned* counters, long long group, long long begin) {
    Memory& shared = *reinterpret_cast<Memory*>(memory);
    Team team(values, counters, hidden, begin);
    const int size = (int)hidden;
    const long long rows = groups * batch, stride = rows * hidden;
    const int end = longest(lengths ? lengths + group * batch : nullptr, steps, team.first, batch);
    const float* dts = parameters + group * hidden;

    const float* matrix = weight + group * 2 * hidden * hidden;
    Weights weights;
    load<false>(shared, weights, [&](int second, int row, int column) {
        const int neuron = team.first_neuron + row;
        if (neuron >= size || column >= size) return 0.f;
        const float* line = matrix + neuron * 2 * hidden;
        return second ? line[column] * dts[column] : line[hidden + column];
    });

    float y[OWN], z[OWN], product[OWN], before[OWN];  // product is W y, `before` the span of the previous step
    Residue residue[OWN];
    Pairs pairs(team, lengths, steps, group, batch, hidden);
    const auto& [length, own] = pairs;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        y[i] = pairs.valid(i) && state ? state[own[i]] : 0.f;
        z[i] = pairs.valid(i) && state ? state[stride + own[i]] : 0.f;
        product[i] = pairs.valid(i) && for_y ? for_y[own[i]] : 0.f;
        before[i] = 0.f;
        if (pairs.valid(i)) {
            store(team.slot(0), pairs.neuron(team, i), pairs.sequence(i), z[i], residue[i]);
            residue[i] = {};  // the initial value is not part of the sum
        }
    }
    team.publish();

    for (int n = 0; n < end; ++n) {
        pairs.hide();
        float input[OWN], span[OWN];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            input[i] = pairs.valid(i) ? drive[own[i] + n * stride] : 0.f;
            span[i] = SPANS && pairs.valid(i) ? timespans[n * rows + own[i] / hidden] : 1.f;
        }
        float from_z[OWN], from_y[OWN], kept[OWN];
        team.await();
        multiply(shared, weights, team.slot(n), from_z, from_y);
        float* next = team.slot(n + 1);
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            if (!pairs.valid(i)) continue;
            const int neuron = pairs.neuron(team, i);
            const Update update(dts, groups * hidden, neuron, size);
            product[i] = fmaf(SPANS ? before[i] : n > 0, from_y[i], product[i]);
            if (SPANS) residue[i].rescale(before[i], span[i]);
            before[i] = span[i];
            float next_y = y[i], next_z = z[i];
            kept[i] = Update::forward(update.at(span[i]), input[i] + from_z[i] + product[i], next_y, next_z);
            if (n < length[i]) y[i] = next_y, z[i] = next_z;
            store(next, neuron, pairs.sequence(i), z[i], residue[i]);
        }
        team.publish();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            if (!pairs.valid(i)) continue;
            const long long at = own[i] + n * stride;
            if (output) output[at] = y[i];
            if (trail_z) trail_z[at] = z[i];
            if (keep_trail) drive[at] = kept[i];
        }
    }

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!pairs.valid(i)) continue;
        for (long long n = end; n < steps; ++n) {
            if (output) output[own[i] + n * stride] = y[i];
            if (trail_z) trail_z[own[i] + n * stride] = z[i];
        }
        last[own[i]] = y[i];
        last[stride + own[i]] = z[i];
    }
}
