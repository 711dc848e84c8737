// A bank of uncoupled oscillators, W = W_z = 0, with pooling over time: csrc/bank.c for a GPU. A block has one sequence
// and GROUPS groups of neurons, one thread per neuron. The threads of a group share a projection of the input: they
// compute it together for STEPS steps, into shared memory, and then run these steps.
//
// input: (steps of all sequences, channels). starts: (sequences + 1). durations: (steps), and span: (steps), the number
// of each step's transition; both null if all steps are 1. transitions: (spans, 6, neurons), as functional.Transition.
// first: (groups), the first channel of a projection. direction: (groups, width). gain, bias: (neurons). constants: (4,
// neurons), keep, push, pull and dt. levels: (2, LEVELS, neurons). features: (sequences, stats, neurons). memory:
// (sequences, numbers, neurons) and elapsed: (sequences), to continue sequences, or both null; elapsed is only read.
//
// LEVELS: thresholds per variable. PLAIN: whether maximum, mean, root mean square and last value are computed.
// SPANS: whether durations differ. GROUP: neurons that share a projection.
#define ACTIVATION TANH
#include "activation.cuh"

constexpr int GROUPS = 8;
constexpr int THREADS = GROUPS * GROUP;
constexpr int STEPS = 32;
constexpr int VARIABLES = 2;  // y and z

// The statistics of a neuron and a sequence so far.
struct Pool {
    float state[VARIABLES] = {};
    float share[VARIABLES][LEVELS] = {}, when[VARIABLES][LEVELS] = {};  // time above a level, and its first moment
    float run[VARIABLES][LEVELS] = {}, longest[VARIABLES][LEVELS] = {};
    float highest[VARIABLES] = {}, sum[VARIABLES] = {}, squares[VARIABLES] = {};

    // Calls `with` for every number, in the order of `Memory` of engine/bank_data.py.
    template <typename Function>
    __device__ __forceinline__ void each(Function with) {
#pragma unroll
        for (int v = 0; v < VARIABLES; ++v) {
            with(state[v]);
#pragma unroll
            for (int j = 0; j < LEVELS; ++j) {
                with(share[v][j]);
                with(when[v][j]);
                with(run[v][j]);
                with(longest[v][j]);
            }
            if (PLAIN) {
                with(highest[v]);
                with(sum[v]);
                with(squares[v]);
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, LEVELS > 2 ? 4 : 6) bank_pool(
    const float* input, const long long* starts, const float* durations, const int* span, const float* transitions,
    const long long* first, const float* direction, const float* gain, const float* bias, const float* constants,
    const float* levels, float* features, float* memory, const float* elapsed, long long channels, long long width,
    long long groups
) {
    // One element of padding, so that the two groups of a warp read from different banks.
    __shared__ float drive[GROUPS][STEPS + 1];
    const long long parts = (groups + GROUPS - 1) / GROUPS, sequence = blockIdx.x / parts;
    const int place = threadIdx.x / GROUP, lane = threadIdx.x % GROUP;
    const long long group = blockIdx.x % parts * GROUPS + place, neurons = groups * GROUP;
    const bool taken = group < groups;
    const long long own = taken ? group : 0, at = own * GROUP + lane;  // threads of the padding write nothing
    const long long from = starts[sequence], steps = starts[sequence + 1] - from;
    const float* const projection = direction + own * width;
    const float* const seen = input + from * channels + first[own];
    const float factor = gain[at], offset = bias[at];
    const float keep = constants[at], push = constants[neurons + at], pull = constants[2 * neurons + at];
    const float dt = constants[3 * neurons + at];
    float level[VARIABLES][LEVELS];
#pragma unroll
    for (int v = 0; v < VARIABLES; ++v)
#pragma unroll
        for (int j = 0; j < LEVELS; ++j) level[v][j] = levels[(v * LEVELS + j) * neurons + at];

    Pool pool;
    float time = 0.f;
    const long long numbers = VARIABLES * (1 + 4 * LEVELS + 3 * PLAIN);
    if (memory) {
        const float* next = memory + sequence * numbers * neurons + at;
        pool.each([&](float& number) { number = *next, next += neurons; });
        time = elapsed[sequence];
    }
    if (time == 0.f)
        for (int v = 0; v < VARIABLES; ++v) pool.highest[v] = __uint_as_float(0xff800000u);  // minus infinity

    for (long long begin = 0; begin < steps; begin += STEPS) {
        const int piece = steps - begin < STEPS ? int(steps - begin) : STEPS;
        for (int step = lane; step < piece; step += GROUP) {
            const float* const sample = seen + (begin + step) * channels;
            float sum = 0.f;
            for (long long c = 0; c < width; ++c) sum = fmaf(projection[c], sample[c], sum);
            drive[place][step] = sum;
        }
        __syncthreads();
#pragma unroll 1
        for (int step = 0; step < piece; ++step) {
            const long long here = from + begin + step;
            const float duration = SPANS ? durations[here] : 1.f;
            const float moment = duration * fmaf(0.5f, duration, time);
            time += duration;
            const float force = accurate_tanh(fmaf(factor, drive[place][step], offset));
            float &y = pool.state[0], &z = pool.state[1];
            if (SPANS) {
                const float* const by = transitions + span[here] * 6 * neurons + at;
                const float before = y;
                y = fmaf(by[0], before, fmaf(by[neurons], z, by[2 * neurons] * force));
                z = fmaf(by[3 * neurons], before, fmaf(by[4 * neurons], z, by[5 * neurons] * force));
            } else {
                z = fmaf(keep, z, fmaf(push, force, -pull * y));
                y = fmaf(dt, z, y);
            }
#pragma unroll
            for (int v = 0; v < VARIABLES; ++v) {
                const float x = pool.state[v];
#pragma unroll
                for (int j = 0; j < LEVELS; ++j) {
                    const bool over = x > level[v][j];
                    pool.share[v][j] += over ? duration : 0.f;
                    pool.when[v][j] += over ? moment : 0.f;
                    pool.run[v][j] = over ? pool.run[v][j] + duration : 0.f;
                    pool.longest[v][j] = fmaxf(pool.run[v][j], pool.longest[v][j]);
                }
                if (PLAIN) {
                    pool.highest[v] = fmaxf(x, pool.highest[v]);
                    pool.sum[v] = fmaf(x, duration, pool.sum[v]);
                    pool.squares[v] = fmaf(x * x, duration, pool.squares[v]);
                }
            }
        }
        __syncthreads();
    }
    if (!taken) return;
    if (memory) {
        float* next = memory + sequence * numbers * neurons + at;
        pool.each([&](float& number) { *next = number, next += neurons; });
    }
    float* to = features + sequence * VARIABLES * (3 * LEVELS + 4 * PLAIN) * neurons + at;
    const float per_time = 1.f / time;
    const auto write = [&](float number) { *to = number, to += neurons; };
#pragma unroll
    for (int v = 0; v < VARIABLES; ++v) {
#pragma unroll
        for (int j = 0; j < LEVELS; ++j) {
            const float share = pool.share[v][j];
            write(share * per_time);
            write(pool.when[v][j] / (share > 0.f ? share : 1.f) * per_time);
            write(pool.longest[v][j] * per_time);
        }
        if (PLAIN) {
            write(pool.highest[v]);
            write(pool.sum[v] * per_time);
            write(sqrtf(pool.squares[v] * per_time));
            write(pool.state[v]);
        }
    }
}
