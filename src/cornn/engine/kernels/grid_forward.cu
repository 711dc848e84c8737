// The forward pass, a grid of blocks, for layers above 512 neurons. See grid.cuh.
//
// Floor: 2 * SIZE * ROWS * SEQUENCES multiply-adds per block and step over 128 per clock.
#include "grid.cuh"

// Arguments as in block_forward.cu; for_y is W y_0, `values` and `counters` are zero at the start, and `group` and
// `begin` say which sequences this launch serves.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail,
        long long steps, long long groups, long long batch, long long hidden, const float* for_y, float* values,
        unsigned* counters, long long group, long long begin) {
    Memory& shared = *reinterpret_cast<Memory*>(memory);
    const Place place;
    Team team(values, counters, hidden, begin);
    const int size = (int)hidden;
    const long long rows = groups * batch, stride = rows * hidden;
    const int end = longest(lengths ? lengths + group * batch : nullptr, steps, team.first, batch);
    const float* dts = parameters + group * hidden;

    const float* matrix = weight + group * 2 * hidden * hidden;
    for (int i = threadIdx.x; i < 2 * ROWS * QUADS; i += THREADS) {
        const int quad = i % QUADS, row = i / QUADS % ROWS, second = i / (QUADS * ROWS);
        const int neuron = team.first_neuron + row;
        float w[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int column = 4 * quad + e;
            w[e] = 0.f;
            if (neuron >= size || column >= size) continue;
            const float* line = matrix + neuron * 2 * hidden;
            w[e] = second ? line[column] * dts[column] : line[hidden + column];
        }
        shared.weights[quad][second][row] = make_float4(w[0], w[1], w[2], w[3]);
    }

    float y[OWN], z[OWN], product[OWN], before[OWN];  // product is W y, `before` the span of the step before
    bool valid[OWN];
    int length[OWN];
    long long own[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int pair = threadIdx.x + i * THREADS, neuron = team.first_neuron + pair % ROWS;
        const long long sequence = team.first + pair / ROWS;
        valid[i] = pair < PAIRS && neuron < size && sequence < batch;
        own[i] = (group * batch + sequence) * hidden + neuron;
        length[i] = valid[i] ? (int)(lengths ? min(lengths[group * batch + sequence], steps) : steps) : 0;
        y[i] = valid[i] && state ? state[own[i]] : 0.f;
        z[i] = valid[i] && state ? state[stride + own[i]] : 0.f;
        product[i] = valid[i] && for_y ? for_y[own[i]] : 0.f;
        before[i] = 0.f;
        if (valid[i]) team.slot(0)[team.position(neuron, pair / ROWS)] = z[i];
    }
    team.publish();

    for (int n = 0; n < end; ++n) {
        float input[OWN], span[OWN];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            input[i] = valid[i] ? drive[own[i] + n * stride] : 0.f;
            span[i] = SPANS && valid[i] ? timespans[n * rows + own[i] / hidden] : 1.f;
        }
        float from_z[OWN], from_y[OWN], kept[OWN];
        team.await();
        multiply(shared, team.slot(n), place, from_z, from_y);
        float* next = team.slot(n + 1);
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int pair = threadIdx.x + i * THREADS, neuron = team.first_neuron + pair % ROWS;
            if (!valid[i]) continue;
            const Update update(dts, groups * hidden, neuron, size);
            product[i] = fmaf(before[i], from_y[i], product[i]);
            before[i] = span[i];
            float next_y = y[i], next_z = z[i];
            kept[i] = Update::forward(update.at(span[i]), input[i] + from_z[i] + product[i], next_y, next_z);
            if (n < length[i]) y[i] = next_y, z[i] = next_z;
            next[team.position(neuron, pair / ROWS)] = z[i];
        }
        team.publish();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            if (!valid[i]) continue;
            const long long at = own[i] + n * stride;
            if (output) output[at] = y[i];
            if (trail_z) trail_z[at] = z[i];
            if (keep_trail) drive[at] = kept[i];
        }
    }

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!valid[i]) continue;
        for (long long n = end; n < steps; ++n) {
            if (output) output[own[i] + n * stride] = y[i];
            if (trail_z) trail_z[own[i] + n * stride] = z[i];
        }
        last[own[i]] = y[i];
        last[stride + own[i]] = z[i];
    }
}
