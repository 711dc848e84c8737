// The forward pass, one block for ROWS sequences, up to 128 neurons: all of R in registers, the state in shared memory,
// one barrier per step, the drive fetched AHEAD steps early. Where FEATURES is defined, the input is fetched in its place,
// which has so many values per step, and a lane makes V u + b of its neuron while the product runs.
//
// Floor at 128 neurons and one sequence: 2 * 128 * 128 multiply-adds over 128 per clock are 256 cycles, 0.13 us at
// 1.98 GHz. Where the rest goes, by count of latencies: shared load 30, half of the product 128 issue cycles (EARLY),
// exchange 3 x 28, tanh 65, update and store 30, barrier 30: some 370 cycles; the other half of the product hides under
// the exchange and the tanh. Two warps of 200 instructions per scheduler are 400 issue cycles, of which 256 are
// multiply-adds. What is measured, and a profile, is in docs/speed.md.
#include "tile.cuh"

// Blocks that a multiprocessor should hold at once.
constexpr int BLOCKS = SIZE > 64 ? 1 : (SIZE > 32 ? 3 : 6) / (ROWS > 2 ? 2 : 1);

#ifdef FEATURES
#define INPUT_MAP , const float *input, const float *input_weight, const float *bias SCALE(input_scale) SCALE(bias_scale)
#else
#define FEATURES 0
#define INPUT_MAP
constexpr const float *input = nullptr, *input_weight = nullptr, *bias = nullptr;
#endif
#if !(FEATURES && SCALED)
constexpr const float *input_scale = nullptr, *bias_scale = nullptr;
#endif
constexpr int FETCHED = FEATURES ? FEATURES : DRIVES;
constexpr int SPAN = FEATURES ? 0 : DRIVES;  // the span comes after the drives
typedef Ahead<SPAN + SPANS ? SPAN + SPANS : 1> Inputs;
typedef AheadForAll<FETCHED> Features;
constexpr int AHEAD = Inputs::AHEAD;  // even: buffers and slots turn together
constexpr int LATER = FEATURES ? 1 : 0;  // steps that the fetching is put off, since features are the whole block's

// What makes the drives of one neuron of what was fetched: its rows of V and b, or nothing where that is the drives.
struct InputMap {
    float weight[DRIVES][FETCHED], bias[DRIVES];

    // `first` is the first row of this model. A neuron of the padding has all of them 0.
    __device__ InputMap(const float* weights, const float* biases, const float* weight_scale, const float* bias_scale,
                        long long first, int neuron, int size) {
        const bool taken = FEATURES && neuron < size;
#pragma unroll
        for (int d = 0; d < DRIVES; ++d) {
            const long long row = first + d * size + neuron;
            bias[d] = taken && biases ? biases[row] : 0.f;
#pragma unroll
            for (int f = 0; f < FETCHED; ++f) weight[d][f] = taken ? weights[row * FETCHED + f] : 0.f;
            if (SCALED && taken) {
                if (biases) bias[d] *= bias_scale[row];
#pragma unroll
                for (int f = 0; f < FETCHED; ++f) weight[d][f] *= weight_scale[row * FETCHED + f];
            }
        }
    }
    __device__ __forceinline__ void drive(float (&out)[DRIVES], const float (&fetched)[FETCHED]) const {
#pragma unroll
        for (int d = 0; d < DRIVES; ++d) {
            out[d] = FEATURES ? bias[d] : fetched[d % FETCHED];
#pragma unroll
            for (int f = 0; f < FEATURES; ++f) out[d] = fmaf(weight[d][f], fetched[f], out[d]);
        }
    }
};

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
            accumulate(sums, weights, q, r,
                       *reinterpret_cast<const float4*>(&state[place.sequence(r)][4 * place.quad(q)]));
}

// drive: (steps, groups, batch, DRIVES * size), overwritten by what is kept of the activation if `keep_trail`. With
// FEATURES it is not read.
// trail_z, output: (steps, groups, batch, size), or null (trail_z with one state, too). last, state: (STATES, groups,
// batch, size); the state may be null, for zeros. weight: (groups, PRODUCTS * size, STATES * size).
// timespans: (steps, groups, batch) if SPANS. lengths: (groups, batch) or null.
// input: (steps, groups, batch, FEATURES). input_weight: (groups, DRIVES * size, FEATURES). bias: (groups, DRIVES * size),
// or null. Scales are for one group.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
forward(float* drive, float* trail_z, float* output, float* last, const float* state, const float* weight,
        const float* parameters, const float* timespans, const long long* lengths, long long keep_trail,
        long long steps, long long groups, long long batch, long long hidden SCALE(weight_scale) INPUT_MAP) {
    __shared__ __align__(16) Published published[2];
    __shared__ Inputs inputs;
    __shared__ Features features;
    const Place place(0);
    const int size = (int)hidden;
    const long long blocks = (batch + ROWS - 1) / ROWS;
    const long long group = blockIdx.x / blocks, first = blockIdx.x % blocks * ROWS;
    const long long rows = groups * batch, stride = rows * hidden;

    const Update update(parameters + group * hidden, groups * hidden, place.neuron, size);
    Weights w_y, w_z;
    load_forward(w_y, w_z, weight + group * STATES * PRODUCTS * hidden * hidden,
                 EARLY ? parameters + group * hidden : nullptr, size, place, weight_scale);

    const InputMap map(input_weight, bias, input_scale, bias_scale, group * DRIVES * hidden, place.neuron, size);

    int end = steps;
    if (lengths) {
        end = 0;
        for (int r = 0; r < ROWS; ++r)
            if (first + r < batch) end = max((long long)end, min(steps, lengths[group * batch + first + r]));
    }

    // What a lane owns: one neuron of OWN sequences. With one sequence two lanes own the same: one of them writes y,
    // the other z and the activation; to_y and stores_y are then those of z in the other.
    constexpr bool PAIR = ROWS == 1 && STATES == 2;
    const bool writes_y = ROWS > 1 || place.part == 1, writes_z = ROWS > 1 || place.part == 0;
    float y[OWN], z[OWN];
    int length[OWN];
    bool valid[OWN];
    // Where the next values of the first sequence are read and written: pointers that move, since a sum with an
    // argument of the kernel would wait for constant memory in every step.
    const long long first_row = group * batch + first + place.sequence(0);
    const long long first_own = first_row * hidden + place.neuron;
    const long long first_drive = first_row * DRIVES * hidden + place.neuron;
    const float *next_drive = drive + first_drive, *next_span = timespans + first_row;
    const float* next_input = input + (group * batch + first) * FEATURES + threadIdx.x;
    const int until = (int)settled((unsigned)(first + threadIdx.x / FETCHED < batch ? end : 0));
    const long long each_input = settled(rows * FEATURES), each = settled(stride);
    float *to_kept = drive + first_drive, *to_z = trail_z + first_own, *to_y = output + first_own;
    if (PAIR && place.part == 0) to_y = to_z;
    unsigned stores_y = 0, stores_z = 0, stores_kept = 0;  // a bit for each own sequence
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const bool inside = first + place.sequence(i) < batch;
        const long long own = first_own + i * hidden;
        valid[i] = inside && place.neuron < size;
        length[i] = min(steps, lengths && inside ? lengths[first_row + i] : steps);
        y[i] = valid[i] && state && STATES == 2 ? state[own] : 0.f;
        z[i] = valid[i] && state ? state[(STATES - 1) * stride + own] : 0.f;
        const int r = place.sequence(i);
        if (writes_y && STATES == 2) {
            published[0].y[r][place.neuron] = y[i];
            published[1].y[r][place.neuron] = update.earlier(y[i], z[i]);
        }
        if (writes_z) published[0].z[r][place.neuron] = z[i];
        stores_y |= (valid[i] && output && writes_y) << i;
        stores_z |= (valid[i] && trail_z && writes_z) << i;
        stores_kept |= (valid[i] && keep_trail && writes_z) << i;
    }
    if (PAIR && place.part == 0) stores_y = stores_z;
    stores_y = settled(stores_y), stores_z = settled(stores_z), stores_kept = settled(stores_kept);
    const Update::Step fixed = update.at(1.f);

    auto ask = [&](int slot, int n) {
        if (FEATURES) features.ask(slot, next_input, n < until);
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
#pragma unroll
            for (int d = 0; d < DRIVES && !FEATURES; ++d)
                inputs.ask(slot, d, i, next_drive + (i * DRIVES + d) * hidden, n < end && valid[i]);
            if (SPANS) inputs.ask(slot, SPAN, i, next_span + i, n < end && valid[i]);
        }
        inputs.asked();
        if (FEATURES) next_input += each_input;
        else next_drive += DRIVES * each;
        next_span += rows;
    };
#pragma unroll
    for (int k = 0; k < AHEAD - LATER; ++k) ask(k, k);
    inputs.wait<LATER>();
    __syncthreads();

    Sums sums;
    clear(sums);
    if (EARLY) product(sums, w_y, published[1].y, place);
    __syncthreads();

    const unsigned nothing = (unsigned)((unsigned long long)steps >> 40);
    for (int start = 0; start < end; start += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const int n = start + k;
            if (n >= end) break;
            const Published& before = published[k % 2];
            Published& after = published[(k + 1) % 2];
            if (LATER && ROWS > 1) ask((k + AHEAD - 1) % AHEAD, n + AHEAD - 1);
            float now[OWN][DRIVES];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                float fetched[FETCHED];
#pragma unroll
                for (int f = 0; f < FETCHED; ++f)
                    fetched[f] = FEATURES ? features.get(k, place.sequence(i), f) : inputs.get(k, f % (SPAN + 1), i);
                map.drive(now[i], fetched);
            }
            product(sums, w_z, before.z, place);
            if (!EARLY && STATES == 2) product(sums, w_y, before.y, place);
            float pre[OWN], first_pre[OWN];  // of the second block of rows, and of the first if there are two
            if ((EARLY || PRODUCTS == 2) && ROWS == 1) {
                // What waits for the exchange is the tanh; the other block's product is needed only after that.
                float4 values[QUADS];
                load_values(values, EARLY ? before.y[0] : before.z[0], place);
                Sums others;
                clear(others);
                reduce_over(pre, sums, others, w_y, values, nothing);
                if (EARLY) copy(sums, others);
                else reduce(first_pre, others), clear(sums);
            } else {
                reduce(pre, sums);
                clear(sums);
                if (EARLY) product(sums, w_y, before.y, place);
                if (PRODUCTS == 2) product(sums, w_y, before.z, place), reduce(first_pre, sums), clear(sums);
            }
            // Here, where the tanh is waited for: at the beginning of a step the state's loads would come later for it.
            if (LATER && ROWS == 1) ask((k + AHEAD - 1) % AHEAD, n + AHEAD - 1);
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                float next_y = y[i], next_z = z[i];
                const Update::Step step = SPANS ? update.at(inputs.get(k, SPANS * SPAN, i)) : fixed;
                float kept[DRIVES];
#pragma unroll
                for (int d = 0; d < DRIVES; ++d) now[i][d] += d + 1 < PRODUCTS ? first_pre[i] : pre[i];
                advance<Update>(step, now[i], next_y, next_z, kept);
                if (ROWS == 1 || n < length[i]) y[i] = next_y, z[i] = next_z;
                const int r = place.sequence(i);
                if (PAIR) {
                    const float written = place.part == 1 ? y[i] : z[i];
                    (place.part == 1 ? after.y : after.z)[r][place.neuron] = written;
                    if (stores_y >> i & 1) to_y[i * hidden] = written;
                } else {
                    if (STATES == 2) after.y[r][place.neuron] = y[i];
                    after.z[r][place.neuron] = z[i];
                    if (stores_y >> i & 1) to_y[i * hidden] = STATES == 2 ? y[i] : z[i];
                    if (stores_z >> i & 1) to_z[i * hidden] = z[i];
                }
#pragma unroll
                for (int d = 0; d < DRIVES; ++d)
                    if (stores_kept >> i & 1) to_kept[(i * DRIVES + d) * hidden] = kept[d];
            }
            to_y += each;
            to_z += each;
            to_kept += DRIVES * each;
            if (!LATER) ask(k, n + AHEAD);
            inputs.wait<LATER>();
            __syncthreads();
        }
    }

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!valid[i]) continue;
        const long long own = first_own + i * hidden;
        for (int n = end; n < steps; ++n) {
            if (output && writes_y) output[own + n * stride] = STATES == 2 ? y[i] : z[i];
            if (trail_z && writes_z && STATES == 2) trail_z[own + n * stride] = z[i];
        }
        if (STATES == 2 && writes_y) last[own] = y[i];
        if (writes_z) last[(STATES - 1) * stride + own] = z[i];
    }
}
