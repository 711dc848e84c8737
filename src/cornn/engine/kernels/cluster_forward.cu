// The forward pass, one cluster of blocks for SETS * ROWS sequences, up to 512 neurons: R in the registers of the
// cluster, and above 256 neurons part of it in its shared memory.
//
// y and z are sent together. With EARLY, the half of the product that needs y uses y of the step before last and runs
// while they are sent; a block never waits for its own threads.
//
// Lower bound on the time: SIZE * 2 * BAND * ROWS * SETS multiply-adds per block and step at 128 per clock are 1024
// cycles, 0.52 us, at 256 neurons, and 4096 cycles, 2.07 us, at 512, where loads from shared memory take as many
// cycles. docs/speed.md has the measured times.
#include "cluster.cuh"

// The second product waits for the message. Without spans there are registers to hold more of its weights.
constexpr int HELD_OF_FIRST = STORED ? QUADS / 2 : QUADS;
constexpr int HELD_OF_SECOND = STORED ? QUADS - QUADS / (SPANS ? 2 : 4) : QUADS;

// Values arrive in a buffer that no thread of the cluster still reads: each thread reads before it sends.
constexpr int Z_BUFFERS = 2, Y_BUFFERS = EARLY ? 3 : 2;

typedef Ahead<1 + SPANS, SETS> Inputs;  // the drive, and the span
struct Memory {
    Buffer z[SETS][Z_BUFFERS];
    Buffer y[SETS][Y_BUFFERS];
    unsigned long long arrived[SETS][4];
    Inputs inputs;
};
constexpr unsigned YS = SETS * Z_BUFFERS * BYTES, ARRIVED = YS + SETS * Y_BUFFERS * BYTES;

// Arguments as in block_forward.cu.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail,
        long long steps, long long groups, long long batch, long long hidden) {
    static_assert(STATES == 2, "a single state needs no y of its own here");
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
    load_forward(w_y, whole, weight + group * STATES * hidden * hidden, EARLY ? dts : nullptr, size, place);
    put(w_z, whole);

    const unsigned base = shared_address(memory + STORED_BYTES);
    const Messenger messenger(base, first_neuron, place);
    const Reader values(place);
    if (threadIdx.x == 0) {
        for (int i = 0; i < SETS; ++i) {
            for (int b = 0; b < 2; ++b) barrier_init(base + ARRIVED + 32 * i + 8 * b);
            barrier_expect(base + ARRIVED + 32 * i + 8, 2 * BYTES);
        }
        barrier_publish();
    }

    // Every block starts with the values of all neurons.
    for (int i = threadIdx.x; i < SIZE * SETS * ROWS; i += THREADS) {
        const int neuron = i % SIZE, r = i / SIZE;
        const long long from = (group * batch + first + r) * hidden + neuron;
        const bool inside = neuron < size && first + r < batch;
        const float y = inside ? state[from] : 0.f, z = inside ? state[stride + from] : 0.f;
        const int set = r / ROWS, to = (neuron / 4 * ROWS + r % ROWS) * 4 + neuron % 4;
        reinterpret_cast<float*>(shared.z[set][0])[to] = z;
        reinterpret_cast<float*>(shared.y[set][0])[to] = y;
        if (EARLY) reinterpret_cast<float*>(shared.y[set][Y_BUFFERS - 1])[to] = inside ? fmaf(-dts[neuron], z, y) : 0.f;
    }

    // Each lane updates one neuron of one sequence of each set.
    const int between = ROWS * (int)hidden;
    const int first_row = (int)(group * batch + first) + place.sequence(0);
    const long long first_own = first_row * hidden + place.neuron;
    float y[SETS], z[SETS];
    bool valid[SETS];
    int length[SETS];
#pragma unroll
    for (int i = 0; i < SETS; ++i) {
        const bool inside = first + i * ROWS + place.sequence(0) < batch;
        const long long own = first_own + i * between;
        valid[i] = inside && place.neuron < size;
        length[i] = min(steps, lengths && inside ? lengths[first_row + i * ROWS] : steps);
        y[i] = valid[i] ? state[own] : 0.f;
        z[i] = valid[i] ? state[stride + own] : 0.f;
    }
    const Update::Step fixed = update.at(1.f);

    const Steps<true> at{first_own, (unsigned)(stride * sizeof(float))};
    auto ask = [&](int n) {
        const int slot = n % Inputs::AHEAD;
        const float* from = at(drive, n);
#pragma unroll
        for (int i = 0; i < SETS; ++i) {
            const bool wanted = n < end && valid[i];
            shared.inputs.ask(slot, 0, i, from + i * between, wanted);
            if (SPANS) shared.inputs.ask(slot, 1, i, timespans + n * rows + first_row + i * ROWS, wanted);
        }
        shared.inputs.asked();
    };
    for (int n = 0; n < Inputs::AHEAD; ++n) ask(n);
    cluster_barrier();

    // Buffers of this step and the next; `late` has y of the previous step.
    unsigned z_now = base, z_next = z_now + BYTES;
    unsigned y_now = base + YS, y_next = y_now + BYTES, late = y_now + (Y_BUFFERS - 1) * BYTES;
    unsigned barriers = base + ARRIVED, next_barriers = barriers + 8;
    unsigned thread = threadIdx.x;
    keep(thread);
    for (int n = 0; n < end; ++n) {
        const int turn = n % Inputs::AHEAD;
        shared.inputs.wait();
#pragma unroll
        for (int i = 0; i < SETS; ++i) {
            const unsigned arrived = barriers + 32 * i;
            Sums sums;
            clear(sums);
            if (EARLY) product<SPANS>(sums, w_y, late + i * Y_BUFFERS * BYTES, values);
            settle(sums);
            // In the first step this is the phase before the barrier's first one, which counts as complete.
            barrier_wait(arrived, (n - 1u) / 2 % 2);
            if (thread == 0) barrier_expect(arrived, 2 * BYTES);
            product<SPANS>(sums, w_z, z_now + i * Z_BUFFERS * BYTES, values);
            if (!EARLY) product<SPANS>(sums, w_y, y_now + i * Y_BUFFERS * BYTES, values);
            float pre[1];
            reduce(pre, sums);
            const float span = SPANS ? shared.inputs.get(turn, SPANS, i) : 1.f;
            float next_y = y[i], next_z = z[i];
            const float kept = Update::forward(
                SPANS ? update.at(span) : fixed, pre[0] + shared.inputs.get(turn, 0, i), next_y, next_z);
            if (n < length[i]) y[i] = next_y, z[i] = next_z;
            if (n + 1 < end) {
                messenger(z[i], z_next + i * Z_BUFFERS * BYTES, next_barriers + 32 * i);
                messenger(y[i], y_next + i * Y_BUFFERS * BYTES, next_barriers + 32 * i);
            }
            if (valid[i] && output) at(output, n)[i * between] = y[i];
            if (valid[i] && trail_z) at(trail_z, n)[i * between] = z[i];
            if (valid[i] && keep_trail) at(drive, n)[i * between] = kept;
        }
        ask(n + Inputs::AHEAD);
        const unsigned free_z = z_now, free_y = EARLY ? late : y_now;
        z_now = z_next, z_next = free_z;
        late = y_now, y_now = y_next, y_next = free_y;
        const unsigned free_barriers = barriers;
        barriers = next_barriers, next_barriers = free_barriers;
    }

#pragma unroll
    for (int i = 0; i < SETS; ++i) {
        if (!valid[i]) continue;
        const long long own = first_own + i * between;
        for (int n = end; n < steps; ++n) {
            if (output) output[own + n * stride] = y[i];
            if (trail_z) trail_z[own + n * stride] = z[i];
        }
        last[own] = y[i];
        last[stride + own] = z[i];
    }
    cluster_barrier();
}
