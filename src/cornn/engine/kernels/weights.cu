// The gradients of R, V and b in two launches, for problems so small that launching several products would take longer
// than computing them.
//
// Each gradient is a sum over all rows, where a row is a step of a sequence: of the gradient of the drive times the
// state before the step (R), times the input (V), and times 1 (b). Side by side they form one matrix of `hidden` rows.
// A block of `partial` computes a tile of this matrix over some of the rows, with 4 x 4 sums per thread; `total` adds
// the tiles up in a fixed order and multiplies by the scales of the weights.

constexpr int THREADS = 256;
constexpr int EACH = DEPTH * TILE / THREADS;  // values of each factor that a thread loads per stage

// One column of the right factor.
struct Column {
    const float* from;    // its values; null for columns of the padding and for the column of ones
    const float* before;  // the state before the first step, or null for zeros
    long long stride, delay;
    float otherwise;

    __device__ __forceinline__ float at(long long row) const {
        if (!from) return otherwise;
        if (row >= delay) return from[(row - delay) * stride];
        return before ? before[row * stride] : 0.f;
    }
};

// drive: (rows, hidden). output, trail: (rows, hidden), y and, with two states, z after each step. state: (states,
// batch, hidden) or null. input: (rows, features). sums: (parts, hidden, columns).
extern "C" __global__ void __launch_bounds__(THREADS)
partial(const float* drive, const float* output, const float* trail, const float* state, const float* input, float* sums,
        long long rows, long long batch, long long hidden, long long features, long long states, long long each) {
    __shared__ __align__(16) float left[2][DEPTH][TILE], right[2][DEPTH][TILE];
    const long long columns = states * hidden + features + 1;
    const int across = (int)((columns + TILE - 1) / TILE), down = (int)((hidden + TILE - 1) / TILE);
    const long long part = blockIdx.x / (across * down);
    const int first_column = blockIdx.x % across * TILE, first_row = blockIdx.x / across % down * TILE;
    const long long begin = part * each, end = min(begin + each, rows);

    const int lane = threadIdx.x % TILE, depth = threadIdx.x / TILE;
    const bool taken = first_row + lane < hidden;
    const float* own = drive + first_row + lane;
    Column column{nullptr, nullptr, 0, 0, 0.f};
    const long long c = first_column + lane;
    if (c < states * hidden) {
        const long long block = c / hidden, neuron = c % hidden;
        column = {(block ? trail : output) + neuron, state ? state + block * batch * hidden + neuron : nullptr, hidden,
                  batch, 0.f};
    } else if (c < states * hidden + features) {
        column = {input + c - states * hidden, nullptr, features, 0, 0.f};
    } else if (c < columns) {
        column.otherwise = 1.f;
    }

    float next_left[EACH], next_right[EACH];
    auto fetch = [&](long long row) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const long long k = row + depth + i * (THREADS / TILE);
            next_left[i] = taken && k < end ? own[k * hidden] : 0.f;
            next_right[i] = k < end ? column.at(k) : 0.f;
        }
    };
    float found[4][4] = {};
    const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    fetch(begin);
    int stage = 0;
    for (long long row = begin; row < end; row += DEPTH, stage ^= 1) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            left[stage][depth + i * (THREADS / TILE)][lane] = next_left[i];
            right[stage][depth + i * (THREADS / TILE)][lane] = next_right[i];
        }
        __syncthreads();
        fetch(row + DEPTH);
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const float4 a = *reinterpret_cast<const float4*>(&left[stage][k][y]);
            const float4 b = *reinterpret_cast<const float4*>(&right[stage][k][x]);
            const float as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) found[i][j] = fmaf(as[i], bs[j], found[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const long long m = first_row + y + i, n = first_column + x + j;
            if (m < hidden && n < columns) sums[(part * hidden + m) * columns + n] = found[i][j];
        }
}

// Gradients that are not needed are null; so are scales that are 1.
extern "C" __global__ void __launch_bounds__(THREADS)
total(const float* sums, float* weight, float* input_weight, float* bias, const float* weight_scale,
      const float* input_scale, const float* bias_scale, long long parts, long long hidden, long long features,
      long long states) {
    const long long columns = states * hidden + features + 1, count = hidden * columns;
    const long long at = blockIdx.x * (long long)THREADS + threadIdx.x;
    if (at >= count) return;
    float sum = 0.f;
#pragma unroll 8
    for (long long part = 0; part < parts; ++part) sum += sums[part * count + at];
    const long long m = at / columns, n = at % columns;
    float* to = bias;
    const float* scale = bias_scale;
    long long place = m;
    if (n < states * hidden) {
        to = weight, scale = weight_scale, place = m * states * hidden + n;
    } else if (n < columns - 1) {
        to = input_weight, scale = input_scale, place = m * features + n - states * hidden;
    }
    if (to) to[place] = scale ? sum * scale[place] : sum;
}
