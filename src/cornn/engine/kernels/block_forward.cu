// The forward pass, one block for ROWS sequences, up to 128 neurons: all of R in registers, the state in shared memory,
// one barrier a step, the drive fetched AHEAD steps early.
//
// Floor at 128 neurons and one sequence: 2 * 128 * 128 multiply-adds over 128 a clock are 256 cycles, 0.13 us at
// 1.98 GHz. Where the rest goes, by count of latencies: shared load 30, half of the product 128 issue cycles (EARLY),
// exchange 3 x 28, tanh 65, update and store 30, barrier 30: some 370 cycles; the other half of the product hides under
// the exchange and the tanh.
#include "tile.cuh"

constexpr int THREADS = SIZE / TILE * LANES;
constexpr int AHEAD = ROWS == 1 ? 4 : 2;  // even: buffers and slots turn together

struct Published {
    float z[ROWS][SIZE];
    float y[ROWS][SIZE];
};

__device__ __forceinline__ void product(Sums& sums, const Weights& weights, const float (&state)[ROWS][SIZE],
                                        const Place& place) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            accumulate(sums, weights, q, r, *reinterpret_cast<const float4*>(&state[place.sequence(r)][4 * place.quad(q)]));
}

// drive: (steps, groups, batch, size), overwritten by what is kept of the activation if `keep_trail`.
// trail_z, output: the same shape, or null (trail_z too if there is one state). last, state: (STATES, groups, batch, size).
// timespans: (steps, groups, batch) if SPANS. lengths: (groups, batch) or null.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail, long long steps,
        long long groups, long long batch, long long hidden) {
    __shared__ __align__(16) Published published[2];
    const Place place(0);
    const int size = (int)hidden;
    const long long blocks = (batch + ROWS - 1) / ROWS;
    const long long group = blockIdx.x / blocks, first = blockIdx.x % blocks * ROWS;
    const long long rows = groups * batch, stride = rows * hidden;

    const Update update(parameters + group * hidden, groups * hidden, place.neuron, size);
    Weights w_y, w_z;
    load_forward(w_y, w_z, weight + group * STATES * hidden * hidden, EARLY ? parameters + group * hidden : nullptr, size,
                 place);

    long long end = steps;
    if (lengths) {
        end = 0;
        for (int r = 0; r < ROWS; ++r)
            if (first + r < batch) end = max(end, min(steps, lengths[group * batch + first + r]));
    }

    // What a lane owns: one neuron of OWN sequences. With one sequence two lanes own the same: one of them writes y, the
    // other z and the activation.
    const bool writes_y = ROWS > 1 || place.part == 1, writes_z = ROWS > 1 || place.part == 0;
    float y[OWN], z[OWN], ahead[AHEAD][OWN], spans[AHEAD][OWN];
    long long at[OWN], row[OWN], length[OWN];
    bool valid[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const long long sequence = first + place.sequence(i);
        row[i] = group * batch + sequence;
        at[i] = row[i] * hidden + place.neuron;
        valid[i] = sequence < batch && place.neuron < size;
        length[i] = lengths && sequence < batch ? lengths[row[i]] : steps;
        y[i] = valid[i] && STATES == 2 ? state[at[i]] : 0.f;
        z[i] = valid[i] ? state[(STATES - 1) * stride + at[i]] : 0.f;
        const int r = place.sequence(i);
        if (writes_y && STATES == 2) {
            published[0].y[r][place.neuron] = y[i];
            published[1].y[r][place.neuron] = update.earlier(y[i], z[i]);
        }
        if (writes_z) published[0].z[r][place.neuron] = z[i];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            ahead[k][i] = valid[i] && k < end ? drive[at[i] + k * stride] : 0.f;
            spans[k][i] = SPANS && valid[i] && k < end ? timespans[row[i] + k * rows] : 1.f;
        }
    }
    Update::Step fixed = update.at(1.f);
    __syncthreads();

    Sums sums;
    clear(sums);
    if (EARLY) product(sums, w_y, published[1].y, place);
    __syncthreads();

    for (long long start = 0; start < end; start += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const long long n = start + k;
            if (n >= end) break;
            const Published& before = published[k % 2];
            Published& after = published[(k + 1) % 2];
            float now[OWN], span[OWN];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                now[i] = ahead[k][i];
                span[i] = spans[k][i];
                if (n + AHEAD < end && valid[i]) {
                    ahead[k][i] = drive[at[i] + AHEAD * stride];
                    if (SPANS) spans[k][i] = timespans[row[i] + (n + AHEAD) * rows];
                }
            }
            product(sums, w_z, before.z, place);
            if (!EARLY && STATES == 2) product(sums, w_y, before.y, place);
            float pre[OWN];
            reduce(pre, sums);
            clear(sums);
            if (EARLY) product(sums, w_y, before.y, place);
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                float next_y = y[i], next_z = z[i];
                const float kept =
                    Update::forward(SPANS ? update.at(span[i]) : fixed, pre[i] + now[i], next_y, next_z);
                if (ROWS == 1 || n < length[i]) y[i] = next_y, z[i] = next_z;
                const int r = place.sequence(i);
                if (ROWS == 1 && STATES == 2) {
                    // One store serves both: y from one lane of the pair, z from the other.
                    (place.part == 1 ? after.y : after.z)[r][place.neuron] = place.part == 1 ? y[i] : z[i];
                    float* kept_state = place.part == 1 ? output : trail_z;
                    if (valid[i] && kept_state) kept_state[at[i]] = place.part == 1 ? y[i] : z[i];
                } else {
                    if (STATES == 2) after.y[r][place.neuron] = y[i];
                    after.z[r][place.neuron] = z[i];
                    if (valid[i] && output) output[at[i]] = STATES == 2 ? y[i] : z[i];
                    if (valid[i] && trail_z && STATES == 2) trail_z[at[i]] = z[i];
                }
                if (valid[i] && writes_z && keep_trail) drive[at[i]] = kept;
                at[i] += stride;
            }
            __syncthreads();
        }
    }

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!valid[i]) continue;
        for (long long n = end; n < steps; ++n, at[i] += stride) {
            if (output && writes_y) output[at[i]] = STATES == 2 ? y[i] : z[i];
            if (trail_z && writes_z && STATES == 2) trail_z[at[i]] = z[i];
        }
        const long long own = row[i] * hidden + place.neuron;
        if (STATES == 2 && writes_y) last[own] = y[i];
        if (writes_z) last[(STATES - 1) * stride + own] = z[i];
    }
}
