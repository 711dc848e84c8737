// The forward pass, one cluster of blocks for ROWS sequences, up to 512 neurons: R in the registers of the cluster.
//
// Only z travels; every block advances all neurons' y by itself, as y + dt z, which halves the traffic. EARLY, the half
// of the product that needs y runs while z travels.
//
// Floor: SIZE * 2 * BAND * ROWS multiply-adds a block and step over 128 a clock are 1024 cycles, 0.52 us, at 256
// neurons (4 blocks, 4 sequences) and 2048 cycles, 1.03 us, at 512 (16 blocks, 8 sequences; 120 take two rounds).
// Where the rest goes, by estimate: exchange between lanes, tanh and update 250 cycles, partly covered by the other
// warps; the travel, some 400 cycles, is covered by the second half of the product. At 512 neurons the shared loads
// (4 x 128 bytes for 16 multiply-adds a thread) take as long as the multiply-adds.
#include "cluster.cuh"

typedef Ahead<1 + 2 * SPANS> Inputs;  // the drive, the span, and that of the slots
struct Memory {
    Buffer z[2];
    Buffer y[2];
    float dt[SIZE];
    unsigned long long arrived[2];
    Inputs inputs;
};
constexpr unsigned ARRIVED = 4 * BYTES + SIZE * sizeof(float);
extern __shared__ __align__(128) unsigned char memory[];

// Arguments as in block_forward.cu.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail,
        long long steps, long long groups, long long batch, long long hidden) {
    static_assert(STATES == 2, "a single state needs no y of its own here");
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
    load_forward(w_y, w_z, weight + group * STATES * hidden * hidden, EARLY ? dts : nullptr, size, place);

    const unsigned base = shared_address(memory);
    const Messenger messenger(base, first_neuron, place);
    if (threadIdx.x == 0) {
        for (int b = 0; b < 2; ++b) {
            barrier_init(base + ARRIVED + 8 * b);
            barrier_expect(base + ARRIVED + 8 * b);
        }
        barrier_publish();
    }

    // Every block starts with all neurons' values.
    for (int i = threadIdx.x; i < SIZE; i += THREADS) shared.dt[i] = i < size ? dts[i] : 0.f;
    for (int i = threadIdx.x; i < SIZE * ROWS; i += THREADS) {
        const int neuron = i % SIZE, r = i / SIZE;
        const long long from = (group * batch + first + r) * hidden + neuron;
        const bool inside = neuron < size && first + r < batch;
        const float y = inside ? state[from] : 0.f, z = inside ? state[stride + from] : 0.f;
        const int to = (neuron / 4 * ROWS + swizzle(neuron / 4, r)) * 4 + neuron % 4;
        reinterpret_cast<float*>(shared.z[0])[to] = z;
        reinterpret_cast<float*>(shared.y[0])[to] = y;
        reinterpret_cast<float*>(shared.y[1])[to] = inside ? fmaf(-dts[neuron], z, y) : 0.f;
    }

    // A thread advances y in SLOTS slots, all of one sequence.
    const int slot_sequence = swizzle(threadIdx.x / ROWS, threadIdx.x % ROWS);
    const bool slot_inside = first + slot_sequence < batch;
    const long long slot_row = group * batch + first + slot_sequence;

    const long long sequence = first + place.sequence(0), row = group * batch + sequence;
    const long long own = row * hidden + place.neuron;
    const bool valid = sequence < batch && place.neuron < size;
    const int length = min(steps, lengths && sequence < batch ? lengths[row] : steps);
    float y = valid ? state[own] : 0.f, z = valid ? state[stride + own] : 0.f;
    const Update::Step fixed = update.at(1.f);

    const float* next_drive = drive + own;
    float *to_kept = drive + own, *to_y = output + own, *to_z = trail_z + own;
    auto ask = [&](int n) {
        shared.inputs.ask(n % Inputs::AHEAD, 0, 0, next_drive, n < end && valid);
        if (SPANS) {
            shared.inputs.ask(n % Inputs::AHEAD, 1, 0, timespans + row + n * rows, n < end && valid);
            // A slot is advanced by the span of the step before.
            const long long before = slot_row + (n - 1) * rows;
            shared.inputs.ask(n % Inputs::AHEAD, 2, 0, timespans + before, n > 0 && n < end && slot_inside);
        }
        shared.inputs.asked();
        next_drive += stride;
    };
    for (int n = 0; n < Inputs::AHEAD; ++n) ask(n);
    cluster_barrier();

    for (int n = 0; n < end; ++n) {
        const int b = n % 2;
        Sums sums;
        clear(sums);
        if (EARLY) product(sums, w_y, shared.y[1 - b], place);
        settle(sums);
        shared.inputs.wait();
        const int turn = n % Inputs::AHEAD;
        const float now = shared.inputs.get(turn, 0, 0);
        const float span = SPANS ? shared.inputs.get(turn, 1, 0) : 1.f;
        const float slot_span = SPANS ? shared.inputs.get(turn, 2, 0) : 1.f;
        if (n > 0) {
            barrier_wait(base + ARRIVED + 8 * b, (n - 1) / 2 % 2);
            if (threadIdx.x == 0) barrier_expect(base + ARRIVED + 8 * b);
#pragma unroll 1  // registers are scarce while the sums wait
            for (int s = 0; s < SLOTS; ++s) {
                const int slot = threadIdx.x + s * THREADS;
                const float4 before = shared.y[1 - b][0][slot], speed = shared.z[b][0][slot];
                const float4 dt = *reinterpret_cast<const float4*>(&shared.dt[slot / ROWS * 4]);
                shared.y[b][0][slot] = make_float4(
                    fmaf(dt.x * slot_span, speed.x, before.x), fmaf(dt.y * slot_span, speed.y, before.y),
                    fmaf(dt.z * slot_span, speed.z, before.z), fmaf(dt.w * slot_span, speed.w, before.w));
            }
        }
        product(sums, w_z, shared.z[b], place);
        if (!EARLY) {
            __syncthreads();
            product(sums, w_y, shared.y[b], place);
        }
        float pre[OWN];
        reduce(pre, sums);
        const float kept = [&] {
            float next_y = y, next_z = z;
            const float found = Update::forward(SPANS ? update.at(span) : fixed, pre[0] + now, next_y, next_z);
            if (n < length) y = next_y, z = next_z;
            return found;
        }();
        if (n + 1 < end) messenger(z, (1 - b) * BYTES, ARRIVED + 8 * (1 - b));
        if (valid && output) *to_y = y;
        if (valid && trail_z) *to_z = z;
        if (valid && keep_trail) *to_kept = kept;
        to_y += stride;
        to_z += stride;
        to_kept += stride;
        ask(n + Inputs::AHEAD);
        // All threads have advanced their slots: the next step may use y.
        if (EARLY) __syncthreads();
    }

    if (valid) {
        for (int n = end; n < steps; ++n) {
            if (output) output[own + n * stride] = y;
            if (trail_z) trail_z[own + n * stride] = z;
        }
        last[own] = y;
        last[stride + own] = z;
    }
    cluster_barrier();
}
