/* out = left @ right, or out += left @ right, with `right` packed once and used at every step.

   Every element of the result is one chain of multiply-adds over the depth, in order, in every tile: the result of a
   row does not depend on the other rows, and so not on the number of threads. */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "vector.h"

/* Columns are packed in panels of two vectors, depth by depth; an odd last vector is a panel of its own. */
#define PANEL (2 * LANES)

/* Number of panels to process at once, so that even few rows have enough independent sums to hide the latency. */
#define PANELS_AT_ONCE(rows) ((rows) == 1 ? 4 : (rows) == 2 || ((rows) == 3 && TILE_ROWS > 6) ? 2 : 1)

INLINE ptrdiff_t round_up(ptrdiff_t x, ptrdiff_t multiple) { return (x + multiple - 1) / multiple * multiple; }

INLINE ptrdiff_t packed_size(ptrdiff_t depth, ptrdiff_t columns) { return depth * round_up(columns, LANES); }

/* Fills the depths from `top` on of `right`, which has `whole` depths. Element (top + k, column) is at
   from[k * depth_stride + column * column_stride]. */
static void pack(const real *from, ptrdiff_t depth_stride, ptrdiff_t column_stride, ptrdiff_t depth, ptrdiff_t columns,
                 real *packed, ptrdiff_t top, ptrdiff_t whole)
{
    const ptrdiff_t block = 16; /* elements of a cache line, which is read whole in both directions */
    for (ptrdiff_t first = 0; first < columns; first += PANEL) {
        const ptrdiff_t there = columns - first < PANEL ? columns - first : PANEL;
        const ptrdiff_t width = round_up(there, LANES);
        for (ptrdiff_t start = 0; start < depth; start += block) {
            const ptrdiff_t end = start + block < depth ? start + block : depth;
            for (ptrdiff_t column = 0; column < width; column++)
                for (ptrdiff_t k = start; k < end; k++)
                    packed[(top + k) * width + column] =
                        column < there ? from[k * depth_stride + (first + column) * column_stride] : 0;
        }
        packed += whole * width;
    }
}

/* Cache lines that are needed after a product. Tiles prefetch one at each depth: requested all at once they would wait
   for each other, and the arithmetic would wait for them. Lines that do not fit here are requested at once. */
#define MOST_AHEAD 1024
#define FEW_ROWS 2 /* with so few rows there are few lines, and the loads of the weights leave no bandwidth for them */
typedef struct {
    ptrdiff_t next, end;
    const real *line[MOST_AHEAD];
} Ahead;

INLINE void fetch(const real *line) { __builtin_prefetch(line, 0, 2); }

INLINE void clear(Ahead *ahead) { ahead->next = ahead->end = 0; }

INLINE void add_lines(Ahead *ahead, const real *from, ptrdiff_t count)
{
    for (ptrdiff_t j = 0; j < count; j += 64 / sizeof(real)) {
        if (ahead->end == MOST_AHEAD)
            fetch(from + j);
        else
            ahead->line[ahead->end++] = from + j;
    }
}

/* The depths from `begin` to `end` of a tile; `line` has one line to prefetch per depth, or is NULL. */
INLINE void deepen(const int rows, const int panels, const int width, vec sum[TILE_ROWS][8], const real *left,
                   ptrdiff_t row_stride, ptrdiff_t depth_stride, const real *right, ptrdiff_t right_stride,
                   ptrdiff_t depth, ptrdiff_t begin, ptrdiff_t end, const real *const *line)
{
    const int vectors = panels * width;
    const ptrdiff_t panel = depth * width * LANES;
    for (ptrdiff_t k = begin; k < end; k++) {
        vec weight[8];
        if (line) fetch(line[k]);
        UNROLL for (int v = 0; v < vectors; v++)
            weight[v] = load(right + k * right_stride + (v / width) * panel + (v % width) * LANES);
        UNROLL for (int row = 0; row < rows; row++) {
            const vec x = splat(left[row * row_stride + k * depth_stride]);
            UNROLL for (int v = 0; v < vectors; v++) sum[row][v] += x * weight[v];
        }
    }
}

/* The layout of the depths of a product: runs of `depth` consecutive ones, at fixed distances on either side. */
typedef struct {
    ptrdiff_t depth, times, left_jump, right_jump;
} Depths;

/* `rows` rows by `panels` panels of `width` vectors, which are constants after inlining. Element (row, k) of `left` is
   at left[row * row_stride + k * depth_stride]; depths of `right` are right_stride apart. */
INLINE void tile(const int rows, const int panels, const int width, const real *left, ptrdiff_t row_stride,
                 ptrdiff_t depth_stride, const real *right, ptrdiff_t right_stride, Depths depths, real *out,
                 ptrdiff_t out_stride, int add, Ahead *ahead)
{
    const int vectors = panels * width;
    const ptrdiff_t depth = depths.depth;
    vec sum[TILE_ROWS][8];
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int v = 0; v < vectors; v++) sum[row][v] = (vec){0};
    for (ptrdiff_t time = 0; time < depths.times; time++) {
        ptrdiff_t lines = 0;
        if (rows > FEW_ROWS && ahead) {
            const real *const *line = ahead->line + ahead->next;
            lines = ahead->end - ahead->next < depth ? ahead->end - ahead->next : depth;
            ahead->next += lines;
            deepen(rows, panels, width, sum, left, row_stride, depth_stride, right, right_stride, depth, 0, lines,
                   line);
        }
        deepen(rows, panels, width, sum, left, row_stride, depth_stride, right, right_stride, depth, lines, depth,
               NULL);
        left += depths.left_jump;
        right += depths.right_jump;
    }
    /* The previous value is usually larger than the product: adding it last rounds it only once. */
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int v = 0; v < vectors; v++) {
            real *to = out + row * out_stride + v * LANES;
            store(to, add ? load(to) + sum[row][v] : sum[row][v]);
        }
}

/* For states, rows are a stride apart and `right` is packed. For gradients, rows are adjacent and depths are a stride
   apart, on the right too: a product of two sequences read in place, or of packed parts of them. */
typedef void Tile(const real *left, ptrdiff_t stride, const real *right, ptrdiff_t right_stride, Depths depths,
                  real *out, ptrdiff_t out_stride, int add, Ahead *ahead);

#define TILE(name, rows, panels, width, row_stride, depth_stride, depths_apart)                                       \
    static void name(const real *left, ptrdiff_t stride, const real *right, ptrdiff_t right_stride, Depths depths,    \
                     real *out, ptrdiff_t out_stride, int add, Ahead *ahead)                                          \
    {                                                                                                                 \
        (void)right_stride;                                                                                           \
        tile(rows, panels, width, left, row_stride, depth_stride, right, depths_apart, depths, out, out_stride, add,  \
             ahead);                                                                                                  \
    }
#define TILES(rows)                                                       \
    TILE(single_##rows, rows, 1, 1, stride, 1, LANES)                     \
    TILE(pair_##rows, rows, 1, 2, stride, 1, PANEL)                       \
    TILE(wide_##rows, rows, PANELS_AT_ONCE(rows), 2, stride, 1, PANEL)    \
    TILE(single_across_##rows, rows, 1, 1, 1, stride, right_stride)       \
    TILE(pair_across_##rows, rows, 1, 2, 1, stride, right_stride)
#define ENTRY(rows) {single_##rows, pair_##rows, wide_##rows, single_across_##rows, pair_across_##rows}

enum { SINGLE, PAIR, WIDE, SINGLE_ACROSS, PAIR_ACROSS, KINDS };

TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#if TILE_ROWS > 6
TILES(7) TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#endif

static Tile *const tiles[TILE_ROWS][KINDS] = {
    ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(5), ENTRY(6),
#if TILE_ROWS > 6
    ENTRY(7), ENTRY(8), ENTRY(9), ENTRY(10), ENTRY(11), ENTRY(12),
#endif
};

/* The length of the rows of `out` is a whole number of vectors. */
static void product(ptrdiff_t rows, const real *left, ptrdiff_t left_stride, const real *packed, ptrdiff_t depth,
                    ptrdiff_t columns, real *out, ptrdiff_t out_stride, int add, Ahead *ahead)
{
    if (rows == 0) return;
    if (rows <= FEW_ROWS && ahead)
        while (ahead->next < ahead->end) fetch(ahead->line[ahead->next++]);
    const ptrdiff_t count = (rows + TILE_ROWS - 1) / TILE_ROWS, height = (rows + count - 1) / count;
    const ptrdiff_t wide = 2 * PANELS_AT_ONCE(height);
    ptrdiff_t vectors = round_up(columns, LANES) / LANES;
    while (vectors > 0) {
        const ptrdiff_t taken = vectors >= wide ? wide : vectors >= 2 ? 2 : 1;
        const int kind = taken == wide ? WIDE : taken == 2 ? PAIR : SINGLE;
        for (ptrdiff_t row = 0; row < rows; row += height) {
            const ptrdiff_t there = rows - row < height ? rows - row : height;
            tiles[there - 1][kind](left + row * left_stride, left_stride, packed, 0, (Depths){depth, 1, 0, 0},
                                   out + row * out_stride, out_stride, add, ahead);
        }
        packed += taken * LANES * depth;
        out += taken * LANES;
        vectors -= taken;
    }
}

#endif
