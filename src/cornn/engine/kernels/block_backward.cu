// The backward pass, one block for ROWS sequences, up to 128 neurons: the transposes in registers, delta (the gradient
// for the drive) in shared memory, one barrier a step, what the forward pass kept fetched AHEAD steps early.
//
// Floor at 128 neurons and one sequence: 256 cycles of multiply-adds a step, as forward. The latencies are those of the
// forward pass less the tanh (65 cycles), plus a second exchange, which hides (EARLY) as half of the product does.
#include "tile.cuh"

constexpr int THREADS = SIZE / TILE * LANES;
constexpr int AHEAD = ROWS == 1 ? 4 : 2;  // even: buffers and slots turn together
constexpr bool LOOKS_BACK = FOR_PARAMETERS || Update::LOOKS_BACK;

__device__ __forceinline__ void fetch(float4 (&values)[QUADS], const float (&delta)[SIZE], const Place& place) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) values[q] = *reinterpret_cast<const float4*>(&delta[4 * place.quad(q)]);
}

__device__ __forceinline__ void product(Sums& sums, const Weights& weights, const float4 (&values)[QUADS], int r) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) accumulate(sums, weights, q, r, values[q]);
}

// What one step needs of the forward pass, for one neuron of one sequence.
struct Fetched {
    float kept, grad, span;
    Update::Before before;
};

// grad_output: (steps, groups, batch, size), grad_last: (STATES, groups, batch, size), either may be null.
// kept, trail_z, output: what the forward pass kept; state: as there. grad_drive, grad_state: results.
// grad_parameters: (PARAMETERS of the update, groups, batch, size), to be summed over the batch. for_spans:
// (steps, groups, batch, size), to be summed over the last dimension, or null.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
backward(const float* grad_output, const float* grad_last, const float* kept, const float* trail_z, const float* output,
         const float* state, const float* weight, const float* parameters, const float* timespans,
         const long long* lengths, float* grad_drive, float* grad_state, float* grad_parameters, float* for_spans,
         long long steps, long long groups, long long batch, long long hidden) {
    __shared__ __align__(16) float delta[2][ROWS][SIZE];
    const Place place(0);
    const int size = (int)hidden;
    const long long blocks = (batch + ROWS - 1) / ROWS;
    const long long group = blockIdx.x / blocks, first = blockIdx.x % blocks * ROWS;
    const long long rows = groups * batch, stride = rows * hidden;

    const Update update(parameters + group * hidden, groups * hidden, place.neuron, size);
    Weights w_y, w_z;
    load_backward(w_y, w_z, weight + group * STATES * hidden * hidden, EARLY ? parameters + group * hidden : nullptr,
                  size, place);

    long long end = steps;
    if (lengths) {
        end = 0;
        for (int r = 0; r < ROWS; ++r)
            if (first + r < batch) end = max(end, min(steps, lengths[group * batch + first + r]));
    }

    // With one sequence two lanes own the same neuron: the first of them writes.
    const bool writes = ROWS > 1 || place.part == 0;
    float grad_y[OWN], grad_z[OWN], z[OWN];
    Fetched ahead[AHEAD][OWN];
    Update::Step sum[OWN];
    float totals[OWN][Update::PARAMETERS];
    long long at[OWN], row[OWN], length[OWN];
    bool valid[OWN];

    const float* zs = STATES == 2 ? trail_z : output;

    // What belongs to step n at `position`; the state before it is that after step n - 1.
    auto look = [&](bool valid, long long row, long long n, long long position) {
        Fetched f = {0.f, 0.f, 1.f, {0.f, 0.f}};
        if (n < 0 || !valid) return f;
        f.kept = kept[position];
        if (grad_output) f.grad = grad_output[position];
        if (SPANS) f.span = timespans[row + n * rows];
        if (LOOKS_BACK) {
            const long long own = row * hidden + place.neuron;
            if (STATES == 2) f.before.y = n ? output[position - stride] : state[own];
            f.before.z = n ? zs[position - stride] : state[(STATES - 1) * stride + own];
        }
        return f;
    };

#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const long long sequence = first + place.sequence(i);
        row[i] = group * batch + sequence;
        const long long own = row[i] * hidden + place.neuron;
        valid[i] = sequence < batch && place.neuron < size;
        length[i] = lengths && sequence < batch ? lengths[row[i]] : steps;
        grad_y[i] = valid[i] && grad_last && STATES == 2 ? grad_last[own] : 0.f;
        grad_z[i] = valid[i] && grad_last ? grad_last[(STATES - 1) * stride + own] : 0.f;
        sum[i] = Update::Step{};
#pragma unroll
        for (int p = 0; p < Update::PARAMETERS; ++p) totals[i][p] = 0.f;
        z[i] = 0.f;
        if (valid[i]) {
            // Past the end of all sequences of this block the state stands still.
            for (long long n = steps - 1; n >= end; --n) {
                if (grad_output) (STATES == 2 ? grad_y[i] : grad_z[i]) += grad_output[own + n * stride];
                if (writes) grad_drive[own + n * stride] = 0.f;
                if (writes && for_spans) for_spans[own + n * stride] = 0.f;
            }
            if (LOOKS_BACK && end > 0) z[i] = zs[own + (end - 1) * stride];
        }
        at[i] = own + (end - 1) * stride;
        if (writes) delta[0][place.sequence(i)][place.neuron] = 0.f;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) ahead[k][i] = look(valid[i], row[i], end - 1 - k, at[i] - k * stride);
    }
    const Update::Step fixed = update.at(1.f);
    __syncthreads();

    Sums sums_y, sums_z;
    float for_y[OWN], for_z[OWN];
    for (long long start = 0; start < end; start += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const long long n = end - 1 - start - k;
            if (n < 0) break;
            Fetched now[OWN];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                now[i] = ahead[k][i];
                ahead[k][i] = look(valid[i], row[i], n - AHEAD, at[i] - AHEAD * stride);
            }
            clear(sums_y);
            clear(sums_z);
            float4 values[QUADS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                fetch(values, delta[k % 2][place.sequence(r)], place);
                product(sums_z, w_z, values, r);
                // Several sequences keep the units busy by themselves: one fetch then serves both products.
                if (STATES == 2 && (!EARLY || ROWS > 1)) product(sums_y, w_y, values, r);
            }
            reduce(for_z, sums_z);
            if (STATES == 2 && EARLY && ROWS == 1) product(sums_y, w_y, values, 0);
            if (STATES == 2 && !EARLY) reduce(for_y, sums_y);

            float found[OWN], total_y[OWN], total_z[OWN];
            bool live[OWN];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const Update::Step step = SPANS ? update.at(now[i].span) : fixed;
                live[i] = ROWS == 1 || n < length[i];
                total_y[i] = STATES == 2 ? grad_y[i] + now[i].grad + (EARLY ? 0.f : for_y[i]) : 0.f;
                total_z[i] = STATES == 2 ? grad_z[i] : grad_z[i] + now[i].grad;
                found[i] = Update::adjoint(step, now[i].kept, now[i].before, for_z[i], total_y[i], total_z[i]);
                if (!live[i]) found[i] = 0.f;
                if (writes) delta[(k + 1) % 2][place.sequence(i)][place.neuron] = found[i];
                if (writes && valid[i]) grad_drive[at[i]] = found[i];
            }
            if (STATES == 2 && EARLY) reduce(for_y, sums_y);
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const Update::Step step = SPANS ? update.at(now[i].span) : fixed;
                if (STATES == 2 && EARLY) total_y[i] += for_y[i];
                float for_span = 0.f;
                if (live[i]) {
                    if (FOR_PARAMETERS && !SPANS)
                        Update::add(sum[i], now[i].kept, now[i].before, z[i], total_y[i], total_z[i]);
                    if (FOR_PARAMETERS && SPANS) {
                        Update::Step one{};
                        float terms[Update::PARAMETERS];
                        Update::add(one, now[i].kept, now[i].before, z[i], total_y[i], total_z[i]);
                        update.gradients(one, now[i].span, terms, for_span);
#pragma unroll
                        for (int p = 0; p < Update::PARAMETERS; ++p) totals[i][p] += terms[p];
                    }
                    grad_y[i] = total_y[i], grad_z[i] = total_z[i];
                    Update::carry(step, grad_y[i], grad_z[i]);
                } else if (STATES == 2) {
                    grad_y[i] = total_y[i];
                } else {
                    grad_z[i] += now[i].grad;
                }
                if (FOR_PARAMETERS && SPANS && for_spans && writes && valid[i]) for_spans[at[i]] = for_span;
                z[i] = now[i].before.z;
                at[i] -= stride;
            }
            __syncthreads();
        }
    }

    // The products of the first step's delta, for the gradient of the initial state.
    clear(sums_y);
    clear(sums_z);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float4 values[QUADS];
        fetch(values, delta[end % 2][place.sequence(r)], place);
        product(sums_z, w_z, values, r);
        if (STATES == 2) product(sums_y, w_y, values, r);
    }
    reduce(for_z, sums_z);
    reduce(for_y, sums_y);
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (!valid[i] || !writes) continue;
        const long long own = row[i] * hidden + place.neuron;
        if (STATES == 2) grad_state[own] = grad_y[i] + for_y[i];
        grad_state[(STATES - 1) * stride + own] =
            grad_z[i] + (EARLY ? fmaf(-fixed.h, for_y[i], for_z[i]) : for_z[i]);
        if (FOR_PARAMETERS) {
            float none;
            if (!SPANS) update.gradients(sum[i], 1.f, totals[i], none);
#pragma unroll
            for (int p = 0; p < Update::PARAMETERS; ++p) grad_parameters[p * stride + own] = totals[i][p];
        }
    }
}
