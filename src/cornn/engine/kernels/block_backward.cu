// The backward pass, one block for ROWS sequences, up to 128 neurons: the transposes in registers, delta (the gradient
// for the drive) in shared memory, one barrier per step, what the forward pass kept fetched AHEAD steps early.
//
// Floor at 128 neurons and one sequence: 256 cycles of multiply-adds a step, as forward. The latencies are those of the
// forward pass less the tanh (65 cycles), plus a second exchange, which hides (EARLY) as half of the product does. What is
// measured is in docs/speed.md.
#include "tile.cuh"

// Blocks that a multiprocessor should hold at once.
constexpr int BLOCKS = SIZE > 64 ? 1 : (SIZE > 32 ? 3 : 6) / (ROWS > 2 || ROWS * FOR_PARAMETERS > 1 ? 2 : 1);
constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;
enum Field { KEPT, GRAD = DRIVES, BEFORE_Z, BEFORE_Y, SPAN = GRAD + (LOOKS_BACK ? 3 : 1) };
typedef Ahead<SPAN + SPANS> Inputs;
constexpr int AHEAD = Inputs::AHEAD;  // even: buffers and slots turn together
// Several sequences make both products of one fetch, where the registers allow it.
constexpr bool TOGETHER = ROWS == 2;

__device__ __forceinline__ void product(Sums& sums, const Weights& weights, const float4 (&values)[QUADS], int r) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) accumulate(sums, weights, q, r, values[q]);
}

// grad_output: (steps, groups, batch, size), grad_last: (STATES, groups, batch, size), either may be null.
// kept, trail_z, output: what the forward pass kept; state: as there. grad_drive (as the drive), grad_state: results,
// the second may be null.
// grad_parameters: (PARAMETERS of the update, groups, batch, size), to be summed over the batch. for_spans:
// (steps, groups, batch, size), to be summed over the last dimension, or null.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
backward(const float* grad_output, const float* grad_last, const float* kept, const float* trail_z, const float* output,
         const float* state, const float* weight, const float* parameters, const float* timespans,
         const long long* lengths, float* grad_drive, float* grad_state, float* grad_parameters, float* for_spans,
         long long steps, long long groups, long long batch, long long hidden SCALE(weight_scale)) {
    __shared__ __align__(16) float delta[2][PRODUCTS][ROWS][SIZE];
    __shared__ Inputs inputs;
    const Place place(0);
    const int size = (int)hidden;
    const long long blocks = (batch + ROWS - 1) / ROWS;
    const long long group = blockIdx.x / blocks, first = blockIdx.x % blocks * ROWS;
    const long long rows = groups * batch, stride = rows * hidden;

    const Update update(parameters + group * hidden, groups * hidden, place.neuron, size);
    Weights w_y, w_z;
    load_backward(w_y, w_z, weight + group * STATES * PRODUCTS * hidden * hidden,
                  EARLY ? parameters + group * hidden : nullptr, size, place, weight_scale);

    int end = steps;
    if (lengths) {
        end = 0;
        for (int r = 0; r < ROWS; ++r)
            if (first + r < batch) end = max((long long)end, min(steps, lengths[group * batch + first + r]));
    }

    // With one sequence two lanes own the same neuron: the first of them writes the results.
    const bool writes = ROWS > 1 || place.part == 0;
    const float* zs = STATES == 2 ? trail_z : output;
    float grad_y[OWN], grad_z[OWN], z[OWN];
    float late_y[OWN], late_z[OWN];  // of the step before, whose gradient for y is complete one step later
    Update::Step sum[OWN];
    float totals[OWN][Update::PARAMETERS];
    int length[OWN];
    bool valid[OWN] = {};
    bool stores[OWN];
    const bool given = grad_output != nullptr;

    // Where the next values of the first sequence are read and written: pointers that move, as in the forward pass.
    const long long first_row = group * batch + first + place.sequence(0);
    const long long first_own = first_row * hidden + place.neuron, last_at = first_own + (end - 1) * stride;
    const long long first_drive = first_row * DRIVES * hidden + place.neuron;
    const long long last_drive = first_drive + (end - 1) * DRIVES * stride;
    const float *next_kept = kept + last_drive, *next_grad = grad_output + last_at;
    const float *next_y = output + last_at - stride, *next_z = zs + last_at - stride;
    const float* next_span = timespans + first_row + (end - 1) * rows;
    float *to_drive = grad_drive + last_drive, *to_span = for_spans + last_at;

    // What belongs to step n; the state before it is that after step n - 1. The pointers are those of step n.
    auto ask = [&](int slot, int n) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const bool wanted = n >= 0 && valid[i];
#pragma unroll
            for (int d = 0; d < DRIVES; ++d)
                inputs.ask(slot, KEPT + d, i, next_kept + (i * DRIVES + d) * hidden, wanted);
            inputs.ask(slot, GRAD, i, next_grad + i * hidden, wanted && given);
            if (SPANS) inputs.ask(slot, SPAN, i, next_span + i, wanted);
            if (LOOKS_BACK) {
                const float* origin = state + first_own + i * hidden;
                const bool known = wanted && (n > 0 || state);
                if (STATES == 2) inputs.ask(slot, BEFORE_Y, i, n > 0 ? next_y + i * hidden : origin, known);
                const float* from = n > 0 ? next_z + i * hidden : origin + (STATES - 1) * stride;
                inputs.ask(slot, BEFORE_Z, i, from, known);
            }
        }
        inputs.asked();
        next_kept -= DRIVES * stride;
        next_grad -= stride;
        next_span -= rows;
        next_y -= stride;
        next_z -= stride;
    };

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const bool inside = first + place.sequence(i) < batch;
        const long long own = first_own + i * hidden;
        valid[i] = inside && place.neuron < size;
        length[i] = min(steps, lengths && inside ? lengths[first_row + i] : steps);
        grad_y[i] = valid[i] && grad_last && STATES == 2 ? grad_last[own] : 0.f;
        grad_z[i] = valid[i] && grad_last ? grad_last[(STATES - 1) * stride + own] : 0.f;
        sum[i] = Update::Step{};
#pragma unroll
        for (int p = 0; p < Update::PARAMETERS; ++p) totals[i][p] = 0.f;
        z[i] = late_y[i] = late_z[i] = 0.f;
        if (valid[i]) {
            // Past the end of all sequences of this block the state stands still.
            for (int n = (int)steps - 1; n >= end; --n) {
                if (given) (STATES == 2 ? grad_y[i] : grad_z[i]) += grad_output[own + n * stride];
#pragma unroll
                for (int d = 0; d < DRIVES; ++d)
                    if (writes) grad_drive[first_drive + (i * DRIVES + d) * hidden + n * DRIVES * stride] = 0.f;
                if (writes && for_spans) for_spans[own + n * stride] = 0.f;
            }
            if (LOOKS_BACK && end > 0) z[i] = zs[own + (end - 1) * stride];
        }
        stores[i] = valid[i] && writes;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p)
            if (writes) delta[0][p][place.sequence(i)][place.neuron] = 0.f;
    }
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) ask(k, end - 1 - k);
    inputs.wait();
    const Update::Step fixed = update.at(1.f);
    const unsigned nothing = (unsigned)((unsigned long long)steps >> 40);
    __syncthreads();

    Sums sums_y, sums_z;
    clear(sums_y);
    float for_y[OWN], for_z[OWN];

    // The gradient for y gets its product, W' delta. One sequence waits for that in the next step, where the exchange
    // hides behind the multiply-adds; several hide each other's.
    auto complete = [&] {
        reduce(for_y, sums_y);
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            grad_y[i] += for_y[i];
            if (FOR_PARAMETERS) Update::add_late(sum[i], late_z[i], late_y[i] + for_y[i]);
        }
        clear(sums_y);
    };

    for (int start = 0; start < end; start += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const int n = end - 1 - start - k;
            if (n < 0) break;
            float kept_now[OWN][DRIVES], grad_now[OWN], span_now[OWN];
            Update::Before before[OWN];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
#pragma unroll
                for (int d = 0; d < DRIVES; ++d) kept_now[i][d] = inputs.get(k, KEPT + d, i);
                grad_now[i] = inputs.get(k, GRAD, i);
                span_now[i] = SPANS ? inputs.get(k, SPAN, i) : 1.f;
                before[i] = {0.f, 0.f};
                if (LOOKS_BACK && STATES == 2) before[i].y = inputs.get(k, BEFORE_Y, i);
                if (LOOKS_BACK) before[i].z = inputs.get(k, BEFORE_Z, i);
            }
            clear(sums_z);
            float4 values[QUADS];
            if (ROWS == 1) {
                load_values(values, delta[k % 2][PRODUCTS - 1][0], place);
                product(sums_z, w_z, values, 0);
                if (PRODUCTS == 2) load_values(values, delta[k % 2][0][0], place), product(sums_z, w_y, values, 0);
                if (EARLY) {
                    complete();
                    reduce_over(for_z, sums_z, sums_y, w_y, values, nothing);
                }
            } else {
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    load_values(values, delta[k % 2][PRODUCTS - 1][place.sequence(r)], place);
                    product(sums_z, w_z, values, r);
                    if (EARLY && TOGETHER) product(sums_y, w_y, values, r);
                    if (PRODUCTS == 1) continue;
                    load_values(values, delta[k % 2][0][place.sequence(r)], place);
                    product(sums_z, w_y, values, r);
                }
                if (EARLY) reduce(for_z, sums_z);
            }
            if (!EARLY) {
                clear(sums_y);
#pragma unroll
                for (int r = 0; r < ROWS && STATES == 2; ++r) {
                    if (ROWS > 1) load_values(values, delta[k % 2][0][place.sequence(r)], place);
                    product(sums_y, w_y, values, r);
                }
                reduce(for_z, sums_z);
                if (STATES == 2) reduce(for_y, sums_y);
            }

#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const Update::Step step = SPANS ? update.at(span_now[i]) : fixed;
                const bool live = ROWS == 1 || n < length[i];
                (STATES == 2 ? grad_y[i] : grad_z[i]) += grad_now[i];
                if (!EARLY && STATES == 2) grad_y[i] += for_y[i];
                float total_z = grad_z[i], for_span = 0.f;
                float found[DRIVES];
                reverse<Update>(step, kept_now[i], before[i], for_z[i], grad_y[i], total_z, found);
#pragma unroll
                for (int d = 0; d < DRIVES; ++d)
                    if (!live) found[d] = 0.f;
                // A product that two drives share takes the sum of what they give.
                const bool sum_of_two = DRIVES > PRODUCTS;
#pragma unroll
                for (int p = 0; p < PRODUCTS; ++p) {
                    const float published = sum_of_two ? found[0] + found[DRIVES - 1] : found[p];
                    if (writes) delta[(k + 1) % 2][p][place.sequence(i)][place.neuron] = published;
                }
#pragma unroll
                for (int d = 0; d < DRIVES; ++d)
                    if (stores[i]) to_drive[(i * DRIVES + d) * hidden] = found[d];
                if (FOR_PARAMETERS && EARLY) late_y[i] = live ? grad_y[i] : 0.f, late_z[i] = live ? z[i] : 0.f;
                if (live) {
                    if (FOR_PARAMETERS && !SPANS) {
                        add<Update>(sum[i], step, kept_now[i], before[i], grad_y[i], total_z);
                        if (!EARLY) Update::add_late(sum[i], z[i], grad_y[i]);
                    }
                    if (FOR_PARAMETERS && SPANS) {
                        Update::Step one{};
                        float terms[Update::PARAMETERS];
                        add<Update>(one, step, kept_now[i], before[i], grad_y[i], total_z);
                        Update::add_late(one, z[i], grad_y[i]);
                        update.gradients(one, span_now[i], terms, for_span);
#pragma unroll
                        for (int p = 0; p < Update::PARAMETERS; ++p) totals[i][p] += terms[p];
                    }
                    grad_z[i] = total_z;
                    carry<Update>(step, kept_now[i], before[i], grad_y[i], grad_z[i]);
                }
                if (FOR_PARAMETERS && SPANS && for_spans && stores[i]) to_span[i * hidden] = for_span;
                z[i] = before[i].z;
            }
            if (EARLY && ROWS > 1) {
#pragma unroll
                for (int r = 0; r < ROWS && !TOGETHER; ++r) {
                    load_values(values, delta[k % 2][0][place.sequence(r)], place);
                    product(sums_y, w_y, values, r);
                }
                complete();
            }
            to_drive -= DRIVES * stride;
            to_span -= stride;
            ask(k, n - AHEAD);
            inputs.wait();
            __syncthreads();
        }
    }

    // The products of the first step's delta, for the gradient of the initial state.
    if (EARLY && ROWS == 1) complete();
    clear(sums_y);
    clear(sums_z);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float4 values[QUADS];
        load_values(values, delta[end % 2][PRODUCTS - 1][place.sequence(r)], place);
        product(sums_z, w_z, values, r);
        if (STATES == 2) product(sums_y, w_y, values, r);
        if (PRODUCTS == 1) continue;
        load_values(values, delta[end % 2][0][place.sequence(r)], place);
        product(sums_z, w_y, values, r);
    }
    reduce(for_z, sums_z);
    for (int i = 0; i < OWN; ++i) for_y[i] = 0.f;
    if (STATES == 2) reduce(for_y, sums_y);
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!valid[i] || !writes) continue;
        const long long own = first_own + i * hidden;
        if (STATES == 2 && grad_state) grad_state[own] = grad_y[i] + for_y[i];
        if (grad_state)
            grad_state[(STATES - 1) * stride + own] =
                grad_z[i] + (EARLY ? update.earlier(for_z[i], for_y[i]) : for_z[i]);
        if (FOR_PARAMETERS) {
            float none;
            if (!SPANS) update.gradients(sum[i], 1.f, totals[i], none);
#pragma unroll
            for (int p = 0; p < Update::PARAMETERS; ++p) grad_parameters[p * stride + own] = totals[i][p];
        }
    }
}
