// One step of the optimiser for many models at once, a thread for each number of each model (a block is of one model),
// and the books of the step: the sum of the losses, the count of the steps, and where each model reads the sequences of
// the next one.
//
// weights, first, second, average: (models, numbers); average may be null.
// rate: (numbers), each number's share of the learning rate, or null.
// scale: (models), what the gradient of each model is multiplied with, or null.
// gains: of the first moment, of what is kept of the second, of the second, of the average.
// table: (steps, models, 3): decay, step size, and the root that corrects the second moment.
// done: the steps so far. arrived: 0 between launches.
// rows, begins, epochs: (models); rows = begins + done % epochs.
// g0 ... g7: the gradient in pieces, each (models, its numbers); e0 ... e7: where in a model's numbers each piece ends.

constexpr int PIECES = 8;
constexpr int DECAY = 0, SIZE = 1, ROOT = 2;

// As torch.lerp has it: exact at both ends.
__device__ __forceinline__ float between(float from, float to, float part) {
    return part < 0.5f ? from + part * (to - from) : to - (to - from) * (1.f - part);
}

extern "C" __global__ void __launch_bounds__(THREADS) adam(
    float* weights, float* first, float* second, float* average, const float* rate, const float* scale,
    const float* gains, const float* table, long long* done, unsigned* arrived, float* losses, const float* loss,
    long long* rows, const long long* begins, const long long* epochs,
    const float* g0, const float* g1, const float* g2, const float* g3,
    const float* g4, const float* g5, const float* g6, const float* g7,
    long long e0, long long e1, long long e2, long long e3, long long e4, long long e5, long long e6, long long e7,
    long long models, long long numbers
) {
    const unsigned blocks = gridDim.x / (unsigned)models, model = blockIdx.x / blocks;  // of a model
    const long long number = (blockIdx.x - model * blocks) * (long long)THREADS + threadIdx.x;
    const long long step = *done, at = model * numbers + number;
    if (number < numbers) {
        const float* const pieces[PIECES] = {g0, g1, g2, g3, g4, g5, g6, g7};
        const long long ends[PIECES] = {e0, e1, e2, e3, e4, e5, e6, e7};
        float gradient = 0.f;
        long long begin = 0;
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            if (begin <= number && number < ends[i])
                gradient = pieces[i][model * (ends[i] - begin) + number - begin];
            begin = ends[i];
        }
        if (scale) gradient *= scale[model];

        const float* row = table + 3 * (step * models + model);
        const float mean = between(first[at], gradient, gains[0]);
        const float square = second[at] * gains[1] + gains[2] * gradient * gradient;
        float change = mean / (sqrtf(square) / row[ROOT] + EPSILON) * row[SIZE] + weights[at] * row[DECAY];
        if (rate) change *= rate[number];
        const float weight = weights[at] - change;
        first[at] = mean;
        second[at] = square;
        weights[at] = weight;
        if (average) average[at] = between(average[at], weight, gains[3]);
    }

    // The block that comes last: all others have read how many steps were done.
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(arrived, 1u) == gridDim.x - 1) {
        for (int i = 0; i < models; ++i) {
            losses[i] += loss[i];
            rows[i] = begins[i] + (unsigned)(step + 1) % (unsigned)epochs[i];
        }
        *done = step + 1;
        *arrived = 0;
    }
}
