// The forward pass with products on tensor cores, one block for ROWS sequences, up to 128 neurons. There is one barrier
// per step, and the drive is fetched AHEAD steps early. The equations and the arguments are those of block_forward.cu.
//
// Lower bound on the time at 128 neurons and 1024 sequences: a step reads the drive and writes y, z and the activation,
// 2 MiB, which takes 0.44 us at 4.8 TB/s. Its multiply-adds, 64 of tf32 or 32 of bf16 for each of the four tensor cores
// of a multiprocessor, take about 512 or 256 cycles, which is less.
#include "tensor.cuh"

struct Memory {
    Vectors z[2], y[2];
    Ahead<SPANS ? 2 : 1> inputs;  // the drive, and the span
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail,
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
    load_forward(w_y, w_z, weight + share.group * 2 * hidden * hidden, EARLY ? constants : nullptr, size, place);

    const long long first_own = share.row * hidden + place.neuron;
    // Positions of the next read and of the next write.
    long long next = first_own, next_row = share.row, now = first_own;
    Pairs y, z;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        float earlier[2];
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const long long own = first_own + Place::step(i) * hidden + p;
            const bool valid = p ? share.other[i] : share.one[i];
            y[i][p] = valid && state ? state[own] : 0.f;
            z[i][p] = valid && state ? state[stride + own] : 0.f;
            earlier[p] = update[p].earlier(y[i][p], z[i][p]);
        }
        publish(memory.y[0], place, i, y[i]);
        publish(memory.y[1], place, i, earlier);
        publish(memory.z[0], place, i, z[i]);
    }
    const Update::Step fixed[2] = {update[0].at(1.f), update[1].at(1.f)};

    auto ask = [&](int slot, int n) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const bool wanted = n < share.end;
            memory.inputs.ask(slot, 0, i, drive + next + Place::step(i) * hidden, wanted && share.one[i],
                              wanted && share.other[i]);
            if (SPANS) memory.inputs.ask_one(slot, 1, i, timespans + next_row + Place::step(i), wanted && share.one[i]);
        }
        commit();
        next += stride;
        next_row += rows;
    };
    for (int k = 0; k < AHEAD; ++k) ask(k, k);
    wait<AHEAD - 1>();
    __syncthreads();

    Sums sums;
    clear(sums);
    if (EARLY) product(sums, w_y, memory.y[1], place);
    __syncthreads();

#pragma unroll 1
    for (int n = 0; n < share.end; ++n) {
        const int slot = n % AHEAD, before = n % 2, after = 1 - before;
        product(sums, w_z, memory.z[before], place);
        if (!EARLY) product(sums, w_y, memory.y[before], place);
        Pairs pre;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const float2 driven = memory.inputs.get(slot, 0, i);
            pre[i][0] = total(sums, i, 0) + driven.x;
            pre[i][1] = total(sums, i, 1) + driven.y;
        }
        clear(sums);
        if (EARLY) product(sums, w_y, memory.y[before], place);
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const bool live = n < share.length[i];
            const float span = SPANS ? memory.inputs.get(slot, 1, i).x : 1.f;
            float kept[2];
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                float next_y = y[i][p], next_z = z[i][p];
                kept[p] = Update::forward(SPANS ? update[p].at(span) : fixed[p], pre[i][p], next_y, next_z);
                if (live) y[i][p] = next_y, z[i][p] = next_z;
            }
            publish(memory.z[after], place, i, z[i]);
            publish(memory.y[after], place, i, y[i]);
            const long long at = now + Place::step(i) * hidden;
            const bool one = share.one[i], other = share.other[i];
            if (output) store2(output + at, y[i][0], y[i][1], one, other);
            if (trail_z) store2(trail_z + at, z[i][0], z[i][1], one, other);
            if (keep_trail) store2(drive + at, kept[0], kept[1], one, other);
        }
        now += stride;
        ask(slot, n + AHEAD);
        wait<AHEAD - 1>();
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const long long own = first_own + Place::step(i) * hidden;
        const bool one = share.one[i], other = share.other[i];
        for (long long n = share.end; n < steps; ++n) {
            if (output) store2(output + own + n * stride, y[i][0], y[i][1], one, other);
            if (trail_z) store2(trail_z + own + n * stride, z[i][0], z[i][1], one, other);
        }
        store2(last + own, y[i][0], y[i][1], one, other);
        store2(last + stride + own, z[i][0], z[i][1], one, other);
    }
}
