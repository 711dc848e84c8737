/* A bank of uncoupled oscillators, W = W_z = 0, with pooling over time. Compiled once for each instruction set, like
   kernels.c, in single precision.

   Groups of GROUP neurons share a projection of the input. A neuron is a linear filter after a tanh, so that only its
   projection, the states and the pooled numbers of a sequence are stored. */

#include "oscillator_step.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(word) JOIN(word, ISA)

#define GROUP 16
#define VARIABLES 2   /* y and z */
#define THRESHOLDS 4  /* of each variable: the most there may be */
#define LEVEL_STATS 3 /* of each threshold: share, mean time, longest run */
#define PLAIN_STATS 4 /* of each variable: maximum, mean, root mean square, last */

/* `Call` of engine/bank.py. Everything is contiguous. */
typedef struct {
    int64_t sequences, groups, channels, width, thresholds, plain, rows, longest, threads;
    const float *input;       /* (steps of all sequences, channels) */
    const int64_t *starts;    /* (sequences + 1) */
    const float *durations;   /* (steps); NULL: all are 1 */
    const int32_t *span;      /* (steps): index of the transition; NULL: one step with the constants */
    const float *transitions; /* (spans, 6, neurons), as functional.Transition */
    const int64_t *first;     /* (groups): first channel of its projection */
    const float *direction;   /* (groups, width) */
    const float *gain, *bias; /* (neurons) */
    const float *constants;   /* (4, neurons): keep, push, pull, dt */
    const float *levels;      /* (2, thresholds, neurons) */
    const int64_t *row;       /* (rows): steps whose states are returned, increasing */
    float *features;          /* (sequences, stats, neurons) */
    float *states;            /* (rows, 2, neurons) */
    float *memory;            /* (sequences, MEMORY, neurons), zeros at the start; NULL: sequences are complete */
    float *elapsed;           /* (sequences), there with memory */
    float *workspace;         /* (threads, longest sequence) */
} Bank;

INLINE vec both(mask where, vec x) { return (vec)(where & (mask)x); }

INLINE vec larger(vec a, vec b)
{
    const mask first = a > b;
    return (vec)((first & (mask)a) | (~first & (mask)b));
}

INLINE void project(const Bank *b, int64_t group, int64_t from, int64_t steps, float *to)
{
    const float *direction = b->direction + group * b->width, *input = b->input + from * b->channels + b->first[group];
    for (int64_t t = 0; t < steps; t++, input += b->channels) {
        float sum = 0;
        for (int64_t c = 0; c < b->width; c++) sum += direction[c] * input[c];
        to[t] = sum;
    }
}

/* The state after step t; `at` is the neuron of the first lane. */
INLINE void advance(const Bank *b, int64_t at, int64_t neurons, int64_t t, vec drive, const vec *k, int spans, vec *state)
{
    if (!spans) {
        oscillator_step(k, drive, state);
        return;
    }
    const float *by = b->transitions + b->span[t] * 6 * neurons + at;
    const vec force = vector_tanh(drive), y = state[0], z = state[1];
    state[0] = load(by) * y + load(by + neurons) * z + load(by + 2 * neurons) * force;
    state[1] = load(by + 3 * neurons) * y + load(by + 4 * neurons) * z + load(by + 5 * neurons) * force;
}

/* The statistics of a sequence so far, for LANES neurons. */
typedef struct {
    vec state[VARIABLES];
    vec share[VARIABLES][THRESHOLDS], when[VARIABLES][THRESHOLDS]; /* time above a level, and its first moment */
    vec run[VARIABLES][THRESHOLDS], longest[VARIABLES][THRESHOLDS];
    vec highest[VARIABLES], sum[VARIABLES], squares[VARIABLES];
} Pool;

/* Reads or writes the numbers of a pool, in the order of `Memory` of engine/bank_data.py. */
INLINE void exchange(Pool *p, float *memory, int64_t neurons, ptrdiff_t levels, int plain, int write)
{
#define EXCHANGE(x)                       \
    do {                                  \
        if (write) store(memory, x);      \
        else x = load(memory);            \
        memory += neurons;                \
    } while (0)
    for (int v = 0; v < VARIABLES; v++) {
        EXCHANGE(p->state[v]);
        for (ptrdiff_t j = 0; j < levels; j++) {
            EXCHANGE(p->share[v][j]);
            EXCHANGE(p->when[v][j]);
            EXCHANGE(p->run[v][j]);
            EXCHANGE(p->longest[v][j]);
        }
        if (plain) {
            EXCHANGE(p->highest[v]);
            EXCHANGE(p->sum[v]);
            EXCHANGE(p->squares[v]);
        }
    }
}

/* Runs LANES neurons on a sequence or its next piece. Returns the time since its start. */
INLINE float pool(const Bank *b, int64_t sequence, int64_t at, const float *drive, ptrdiff_t levels, int plain, int spans)
{
    const int64_t neurons = b->groups * GROUP, from = b->starts[sequence], steps = b->starts[sequence + 1] - from;
    const int64_t size = VARIABLES * (1 + 4 * levels + 3 * plain);
    const vec gain = load(b->gain + at), bias = load(b->bias + at);
    float *memory = b->memory ? b->memory + sequence * size * neurons + at : NULL;
    float time = b->memory ? b->elapsed[sequence] : 0;
    vec k[4], level[VARIABLES][THRESHOLDS];
    Pool p = {0};
    for (int i = 0; i < 4; i++) k[i] = load(b->constants + i * neurons + at);
    for (int v = 0; v < VARIABLES; v++)
        for (ptrdiff_t j = 0; j < levels; j++) level[v][j] = load(b->levels + (v * levels + j) * neurons + at);
    if (memory) exchange(&p, memory, neurons, levels, plain, 0);
    if (time == 0)
        for (int v = 0; v < VARIABLES; v++) p.highest[v] = splat(-__builtin_inff());
    for (int64_t t = 0; t < steps; t++) {
        const float duration = b->durations ? b->durations[from + t] : 1;
        const vec weight = splat(duration), moment = splat(duration * (time + 0.5f * duration));
        time += duration;
        advance(b, at, neurons, from + t, gain * drive[t] + bias, k, spans, p.state);
        UNROLL for (int v = 0; v < VARIABLES; v++) {
            const vec x = p.state[v];
            UNROLL for (ptrdiff_t j = 0; j < levels; j++) {
                const mask over = x > level[v][j];
                p.share[v][j] += both(over, weight);
                p.when[v][j] += both(over, moment);
                p.run[v][j] = both(over, p.run[v][j] + weight);
                p.longest[v][j] = larger(p.run[v][j], p.longest[v][j]);
            }
            if (plain) {
                p.highest[v] = larger(x, p.highest[v]);
                p.sum[v] += x * weight;
                p.squares[v] += x * x * weight;
            }
        }
    }
    if (memory) exchange(&p, memory, neurons, levels, plain, 1);
    float *to = b->features + sequence * VARIABLES * (levels * LEVEL_STATS + plain * PLAIN_STATS) * neurons + at;
    const vec per_time = splat(1 / time), one = splat(1);
    for (int v = 0; v < VARIABLES; v++) {
        for (ptrdiff_t j = 0; j < levels; j++) {
            const mask never = p.share[v][j] <= 0;
            store(to, p.share[v][j] * per_time), to += neurons;
            store(to, p.when[v][j] / (p.share[v][j] + both(never, one)) * per_time), to += neurons;
            store(to, p.longest[v][j] * per_time), to += neurons;
        }
        if (plain) {
            vec root = p.squares[v] * per_time;
            for (ptrdiff_t lane = 0; lane < LANES; lane++) root[lane] = __builtin_sqrtf(root[lane]);
            store(to, p.highest[v]), to += neurons;
            store(to, p.sum[v] * per_time), to += neurons;
            store(to, root), to += neurons;
            store(to, p.state[v]), to += neurons;
        }
    }
    return time;
}

/* The number of thresholds and the kinds of numbers are constants of the inner loop. */
#define CASE(levels, plain)                                                                        \
    case 2 * levels + plain:                                                                       \
        time = b->span ? pool(b, sequence, at, drive, levels, plain, 1)                            \
                       : pool(b, sequence, at, drive, levels, plain, 0);                           \
        break

static void pool_sequence(void *context, int64_t sequence, int64_t worker)
{
    const Bank *b = context;
    float *drive = b->workspace + worker * b->longest, time = 0;
    const int64_t from = b->starts[sequence], steps = b->starts[sequence + 1] - from;
    for (int64_t group = 0; group < b->groups; group++) {
        project(b, group, from, steps, drive);
        for (int64_t at = group * GROUP; at < (group + 1) * GROUP; at += LANES)
            switch (2 * b->thresholds + b->plain) {
                CASE(1, 0);
                CASE(1, 1);
                CASE(2, 0);
                CASE(2, 1);
                CASE(3, 0);
                CASE(3, 1);
                CASE(4, 0);
                CASE(4, 1);
            }
    }
    if (b->elapsed) b->elapsed[sequence] = time;
}

/* The pooled numbers of all sequences. */
EXPORT void NAME(cornn_bank_pool)(const Bank *b) { cornn_parallel(pool_sequence, (void *)b, b->sequences, b->threads); }

static void record_group(void *context, int64_t group, int64_t worker)
{
    const Bank *b = context;
    const int64_t neurons = b->groups * GROUP;
    float *drive = b->workspace + worker * b->longest;
    int64_t next = 0;
    for (int64_t sequence = 0; sequence < b->sequences; sequence++) {
        const int64_t from = b->starts[sequence], steps = b->starts[sequence + 1] - from;
        if (next == b->rows) return;
        if (b->row[next] >= from + steps) continue;
        project(b, group, from, steps, drive);
        int64_t after = next;
        for (int64_t at = group * GROUP; at < (group + 1) * GROUP; at += LANES) {
            vec k[4], state[2] = {{0}, {0}};
            for (int i = 0; i < 4; i++) k[i] = load(b->constants + i * neurons + at);
            const vec gain = load(b->gain + at), bias = load(b->bias + at);
            after = next;
            for (int64_t t = 0; t < steps; t++) {
                advance(b, at, neurons, from + t, gain * drive[t] + bias, k, b->span != NULL, state);
                if (after < b->rows && b->row[after] == from + t) {
                    store(b->states + 2 * after * neurons + at, state[0]);
                    store(b->states + (2 * after + 1) * neurons + at, state[1]);
                    after++;
                }
            }
        }
        next = after;
    }
}

/* The states y and z at some steps. */
EXPORT void NAME(cornn_bank_states)(const Bank *b) { cornn_parallel(record_group, (void *)b, b->groups, b->threads); }
