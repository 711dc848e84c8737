/* Part of sequence.h: the gradient of R, which is the sum over all steps and rows of the drive's gradient (a column of
   it) times the state before (a row).

   It is one product of depth time * batch, made in chunks that stay in the cache. A thread has some columns of R to
   itself and goes through the chunks in order, so that the sums do not depend on the number of threads. */

#define CHUNK 128
#define PANELS(call) (STATES * (round_up((call)->hidden, PANEL) / PANEL)) /* no panel has columns of two states */
#define ROW_TILES(call) (((call)->hidden + TILE_ROWS - 1) / TILE_ROWS)
#define LEFT_SIZE(call) round_up(CHUNK * ROW_TILES(call) * TILE_ROWS, LANES)
#define GRADIENT_SIZE(call) (PANELS(call) * (call)->hidden * PANEL)

/* One row of each drive's gradient that R's block `product` takes part in, cut into tiles. */
INLINE void NAME(pack_row)(const Plan *plan, int product, ptrdiff_t at, real *left, ptrdiff_t tile_size)
{
    const ptrdiff_t m = plan->call->hidden;
    const real *from = (const real *)plan->call->grad_drive + product * plan->block + at;
    for (ptrdiff_t first = 0; first < m; first += TILE_ROWS, left += tile_size) {
        const ptrdiff_t there = m - first < TILE_ROWS ? m - first : TILE_ROWS;
        if (there == TILE_ROWS)
            copy(left, from + first, TILE_ROWS);
        else
            copy(left, from + first, there);
        for (int drive = product + PRODUCTS; drive < DRIVES; drive += PRODUCTS)
            for (ptrdiff_t i = 0; i < there; i++) left[i] += from[(drive - product) * plan->block + first + i];
    }
}

/* Up to PANEL columns of the states before the steps of a chunk. Those of the next chunk are fetched meanwhile. */
INLINE void NAME(pack_states)(const Plan *plan, int64_t panel, const ptrdiff_t *place, ptrdiff_t depth, real *right)
{
    const Call *call = plan->call;
    const ptrdiff_t m = call->hidden, all = call->groups * call->batch * m, each = PANELS(call) / STATES;
    const ptrdiff_t i = panel / each, column = panel % each * PANEL, there = m - column, width = there > LANES ? 2 : 1;
    const real *initial = (const real *)call->state + i * all + column;
    const real *sequence = i ? (const real *)call->trail + (i - 1) * plan->block : call->output;
    for (ptrdiff_t k = 0; k < depth; k++) {
        const real *from = place[k] < all ? initial + place[k] : sequence + (place[k] - all + column);
        for (ptrdiff_t v = 0; v < width; v++, right += LANES) {
            const ptrdiff_t count = there - v * LANES < LANES ? there - v * LANES : LANES;
            store(right, get(from + v * LANES, count));
            __builtin_prefetch(sequence + (place[CHUNK + k] - all + column + v * LANES), 0, 2);
        }
    }
}

static void NAME(gradient_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Call *call = plan->call;
    const int64_t group = unit / (plan->units * PRODUCTS), part = unit % plan->units;
    const int product = unit / plan->units % PRODUCTS;
    const ptrdiff_t m = call->hidden, panels = PANELS(call), each = panels / STATES, rows = call->steps * call->batch;
    const ptrdiff_t first = panels * part / plan->units, end = panels * (part + 1) / plan->units;
    real *left = plan->scratch + worker * (LEFT_SIZE(call) + CHUNK * PANEL), *right = left + LEFT_SIZE(call);
    real *sums = (real *)call->workspace + (group * PRODUCTS + product) * GRADIENT_SIZE(call);
    real *grad_weight = (real *)call->grad_weight + (group * PRODUCTS + product) * m * STATES * m;
    memset(sums + first * m * PANEL, 0, (end - first) * m * PANEL * sizeof(real));
    for (ptrdiff_t start = 0; start < rows; start += CHUNK) {
        const ptrdiff_t depth = rows - start < CHUNK ? rows - start : CHUNK;
        ptrdiff_t place[2 * CHUNK]; /* in a block, of each row of this chunk and the next */
        for (ptrdiff_t k = 0; k < 2 * CHUNK; k++) {
            const ptrdiff_t at = start + k < rows ? start + k : rows - 1, n = at / call->batch, row = at % call->batch;
            place[k] = ((n * call->groups + group) * call->batch + row) * m;
        }
        for (ptrdiff_t k = 0; k < depth; k++)
            NAME(pack_row)(plan, product, place[k], left + k * TILE_ROWS, depth * TILE_ROWS);
        for (ptrdiff_t panel = first; panel < end; panel++) {
            const int kind = m - panel % each * PANEL > LANES ? PAIR_PACKED : SINGLE_PACKED;
            NAME(pack_states)(plan, panel, place, depth, right);
            for (ptrdiff_t row = 0; row < m; row += TILE_ROWS) {
                const ptrdiff_t height = m - row < TILE_ROWS ? m - row : TILE_ROWS;
                real *sum = sums + (panel * m + row) * PANEL;
                tiles[height - 1][kind](left + row * depth, 0, right, depth, sum, PANEL, 1);
            }
        }
    }
    for (ptrdiff_t panel = first; panel < end; panel++) {
        const ptrdiff_t column = panel % each * PANEL, there = m - column < PANEL ? m - column : PANEL;
        real *to = grad_weight + panel / each * m + column;
        for (ptrdiff_t row = 0; row < m; row++) copy(to + row * STATES * m, sums + (panel * m + row) * PANEL, there);
    }
}

static int64_t NAME(gradient_workspace)(const Call *call)
{
    return call->groups * PRODUCTS * GRADIENT_SIZE(call) + call->threads * (LEFT_SIZE(call) + CHUNK * PANEL);
}

static void NAME(weight_gradient)(const Call *call)
{
    Plan plan = {.call = call, .threads = threads_of(call, WEIGHTS(call))};
    const int64_t products = call->groups * PRODUCTS, share = (plan.threads + products - 1) / products;
    plan.units = share < PANELS(call) ? share : PANELS(call);
    plan.block = call->steps * call->groups * call->batch * call->hidden;
    plan.scratch = (real *)call->workspace + products * GRADIENT_SIZE(call);
    cornn_parallel(NAME(gradient_unit), &plan, products * plan.units, plan.threads);
}
