// The gradient of R for large problems, on tensor cores in the accuracy of fp32 (split.cuh).
//
// It is a sum over all rows, where a row is a step of a sequence, of the gradient of the drive times the state before
// the step. A block of `partial` computes a tile of this matrix over some of the rows, and each of its warps 64 x 64
// values of the tile; `total` adds the tiles up in a fixed order and multiplies by the scale of the weights.
//
// Both factors are stored in shared memory in fp32, as in device memory: [row][neuron]. A lane loads four neighbouring
// neurons of a row at a time, for four multiply-adds, so that neuron 4 g + j of 32 is row or column g of multiply-add
// j. Products sum over the words in the order of these loads.
#include "split.cuh"

constexpr int THREADS = 256, DEPTH = 16, STAGES = 4;
constexpr int DOWN = 128, ACROSS = 256;  // a tile
constexpr int PAD = 8;                   // so that lanes that read together read from different banks

struct Memory {
    float left[STAGES][DEPTH][DOWN + PAD];
    float right[STAGES][DEPTH][ACROSS + PAD];
};

extern __shared__ __align__(128) unsigned char memory[];

__device__ __forceinline__ void unpack(float4 from, float (&to)[4]) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

// drive: (rows, hidden). output, trail: (rows, hidden), y and, with two states, z after each step. state: (states,
// batch, hidden) or null. sums: (parts, hidden, states * hidden). `hidden` is a multiple of 4.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
partial(const float* drive, const float* output, const float* trail, const float* state, float* sums, long long rows,
        long long batch, long long hidden, long long states, long long each) {
    Memory& shared = *reinterpret_cast<Memory*>(memory);
    const int size = (int)hidden, down = (size + DOWN - 1) / DOWN, across = (size + ACROSS - 1) / ACROSS;
    const int block = (int)(blockIdx.x / down % (across * states)) / across;  // of R: y or z
    const int first_row = (int)blockIdx.x % down * DOWN, first_column = (int)blockIdx.x / down % across * ACROSS;
    const long long part = blockIdx.x / (down * across * states);
    const int begin = (int)(part * each), end = (int)min(begin + each, rows), delay = (int)batch;
    // Of this thread: the left factor, the right factor shifted by one step, and the state before the first step.
    const int left_at = threadIdx.x % (DOWN / 4) * 4, right_at = threadIdx.x % (ACROSS / 4) * 4;
    const bool left_there = first_row + left_at < size, right_there = first_column + right_at < size;
    drive += first_row + left_at;
    const float* sequence = (block ? trail : output) - batch * hidden + first_column + right_at;
    const float* before = state ? state + block * batch * hidden + first_column + right_at : nullptr;

    auto fill = [&](int row, int stage) {
        if (row < end) {
#pragma unroll
            for (int i = 0; i < DEPTH * DOWN / 4; i += THREADS) {
                const int k = (i + threadIdx.x) / (DOWN / 4), now = row + k;
                const bool there = left_there && now < end;
                copy_ahead<16>(&shared.left[stage][k][left_at], drive + (there ? now * hidden : 0), there);
            }
#pragma unroll
            for (int i = 0; i < DEPTH * ACROSS / 4; i += THREADS) {
                const int k = (i + threadIdx.x) / (ACROSS / 4), now = row + k;
                const float* from = now >= delay ? sequence : before;
                const bool there = right_there && now < end && from;
                copy_ahead<16>(&shared.right[stage][k][right_at], there ? from + now * hidden : drive, there);
            }
        }
        commit();
    };

    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int own_row = warp % 2 * 64 + 4 * g, own_column = warp / 2 * 64 + 4 * g;
    float found[4][2][4][4] = {};  // multiply-add along the rows, half of the columns, multiply-add along them
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) fill(begin + i * DEPTH, i);
    int stage = 0;
#pragma unroll 1
    for (int row = begin; row < end; row += DEPTH) {
        wait<STAGES - 2>();
        __syncthreads();
        fill(row + (STAGES - 1) * DEPTH, (stage + STAGES - 1) % STAGES);
        const auto& left = shared.left[stage];
        const auto& right = shared.right[stage];
        stage = (stage + 1) % STAGES;

        unsigned held[4][PIECES][4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {  // words of the left factor: row g or g + 8, word t or t + 4
            float one[4], other[4];
            const int k = t + w / 2 * 8, at = own_row + w % 2 * 32;
            unpack(*reinterpret_cast<const float4*>(&left[k][at]), one);
            unpack(*reinterpret_cast<const float4*>(&left[k + 4][at]), other);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                unsigned words[PIECES];
                split(one[j], other[j], words);
#pragma unroll
                for (int p = 0; p < PIECES; ++p) held[j][p][w] = words[p];
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float values[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                unpack(*reinterpret_cast<const float4*>(&right[t + 4 * i][own_column + half * 32]), values[i]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                unsigned early[PIECES], late[PIECES];
                split(values[0][j], values[1][j], early), split(values[2][j], values[3][j], late);
                float sum[4][4] = {};
#pragma unroll
                for (int n = 0; n < SPLIT_PRODUCTS; ++n)
#pragma unroll
                    for (int m = 0; m < 4; ++m)
                        multiply_add(sum[m], held[m][left_piece(n)], early[right_piece(n)], late[right_piece(n)]);
#pragma unroll
                for (int m = 0; m < 4; ++m)
#pragma unroll
                    for (int i = 0; i < 4; ++i) found[m][half][j][i] += sum[m][i];
            }
        }
    }

    // Row g of multiply-add m is neuron 4 g + m; columns 2 t and 2 t + 1 of multiply-add j are 8 t + j and 8 t + 4 + j.
    float* to = sums + part * hidden * states * hidden + block * hidden;
    const int column = first_column + warp / 2 * 64 + 8 * t;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = first_row + own_row + i / 2 * 32 + m, c = column + half * 32 + i % 2 * 4;
                if (r < size && c < size)
                    *reinterpret_cast<float4*>(to + r * states * hidden + c) =
                        make_float4(found[m][half][0][i], found[m][half][1][i], found[m][half][2][i], found[m][half][3][i]);
            }
}

// `count`, a multiple of 4, is the number of values per part; the scale is null if it is 1.
extern "C" __global__ void __launch_bounds__(THREADS)
total(const float4* sums, float4* weight, const float4* scale, long long parts, long long count) {
    const long long at = blockIdx.x * (long long)THREADS + threadIdx.x, quads = count / 4;
    if (at >= quads) return;
    float4 sum = sums[at];
    for (long long part = 1; part < parts; ++part) {
        const float4 v = sums[part * quads + at];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    if (scale) {
        const float4 s = scale[at];
        sum.x *= s.x, sum.y *= s.y, sum.z *= s.z, sum.w *= s.w;
    }
    weight[at] = sum;
}
