/* Part of sequence.h: the gradients of R, V and b. They are sums over all steps and rows of the gradient of the drive
   (a column) times the state before the step, the input, and 1 (a row).

   This is one product of depth time * batch, computed in chunks that stay in the cache. The sequences of a model are
   divided into shares with separate sums, which are added up at the end, so that a thread reads the rows that it wrote
   in the previous passes. Each thread has some tiles of a share and processes the chunks in order. The number of shares
   depends on the batch only, so that the sums do not depend on the number of threads.

   The rows of a step are contiguous and have the same layout in all steps, and so have the states before and after a
   step: both factors of the product are read in place. Only groups of models, drives that share a product, and panels
   that end within a vector are packed. */

#define CHUNK 128
#define MOST_SHARES 4
#define LEAST_SHARE 12 /* sequences */
#define IN_PLACE(call) ((call)->groups == 1 && DRIVES == PRODUCTS)
#define EACH(call) (round_up((call)->hidden, PANEL) / PANEL) /* panels per state; no panel has columns of two states */
#define STATE_PANELS(call) ((call)->grad_weight ? STATES * EACH(call) : 0)
#define INPUT_COLUMNS(call) ((call)->grad_input_weight ? (call)->features : 0)
#define OTHER_COLUMNS(call) (INPUT_COLUMNS(call) + ((call)->grad_bias != NULL))
#define PANELS(call) (STATE_PANELS(call) + round_up(OTHER_COLUMNS(call), PANEL) / PANEL)
#define ROW_TILES(call) (((call)->hidden + TILE_ROWS - 1) / TILE_ROWS)
#define LEFT_SIZE(call) round_up(CHUNK * ROW_TILES(call) * TILE_ROWS, LANES)
#define GRADIENT_SIZE(call) (PANELS(call) * (call)->hidden * PANEL)

/* A panel: its state (STATES for the input), its first column there, and its number of columns, at most PANEL. */
typedef struct {
    ptrdiff_t state, column, columns;
} NAME(Panel);

INLINE NAME(Panel) NAME(panel_at)(const Call *call, ptrdiff_t number)
{
    const ptrdiff_t states = STATE_PANELS(call), own = number - states, each = EACH(call);
    NAME(Panel) panel = {STATES, own * PANEL, OTHER_COLUMNS(call) - own * PANEL};
    if (own < 0) panel = (NAME(Panel)){number / each, number % each * PANEL, call->hidden - number % each * PANEL};
    if (panel.columns > PANEL) panel.columns = PANEL;
    return panel;
}

/* The first tile of a part, counted panel by panel. All parts have about the same number of multiplications. */
static ptrdiff_t NAME(first_tile)(const Call *call, int64_t part, int64_t parts)
{
    const ptrdiff_t m = call->hidden, tiles_each = ROW_TILES(call), count = PANELS(call) * tiles_each;
    ptrdiff_t all = 0, seen = 0, number = 0;
    for (ptrdiff_t i = 0; i < PANELS(call); i++) all += NAME(panel_at)(call, i).columns > LANES ? 2 * m : m;
    for (; number < count; number++) {
        const ptrdiff_t row = number % tiles_each * TILE_ROWS, height = m - row < TILE_ROWS ? m - row : TILE_ROWS;
        const ptrdiff_t own = NAME(panel_at)(call, number / tiles_each).columns > LANES ? 2 * height : height;
        if ((2 * seen + own) * parts >= 2 * all * part) break;
        seen += own;
    }
    return number;
}

/* One row of the gradient of each drive that uses block `product` of R, divided into tiles. */
INLINE void NAME(pack_row)(const Plan *plan, int product, ptrdiff_t at, real *left, ptrdiff_t tile_size)
{
    const ptrdiff_t m = plan->call->hidden;
    const real *from = (const real *)plan->call->grad_drive + at * DRIVES * m + product * m;
    for (ptrdiff_t first = 0; first < m; first += TILE_ROWS, left += tile_size) {
        const ptrdiff_t there = m - first < TILE_ROWS ? m - first : TILE_ROWS;
        if (there == TILE_ROWS)
            copy(left, from + first, TILE_ROWS);
        else
            copy(left, from + first, there);
        for (int drive = product + PRODUCTS; drive < DRIVES; drive += PRODUCTS)
            for (ptrdiff_t i = 0; i < there; i++) left[i] += from[(drive - product) * m + first + i];
    }
}

/* The panel's columns of the state before a step; `at` is a row among those of all steps. */
INLINE const real *NAME(states_before)(const Plan *plan, NAME(Panel) panel, ptrdiff_t at)
{
    const Call *call = plan->call;
    const ptrdiff_t m = call->hidden, rows = call->groups * call->batch;
    const real *sequence = panel.state ? (const real *)call->trail + (panel.state - 1) * plan->block : call->output;
    if (at < rows) return (const real *)call->state + (panel.state * rows + at) * m + panel.column;
    return sequence + (at - rows) * m + panel.column;
}

/* The same for the rows of a chunk. */
INLINE void NAME(pack_states)(const Plan *plan, NAME(Panel) panel, const ptrdiff_t *at, ptrdiff_t depth, real *right)
{
    const ptrdiff_t width = panel.columns > LANES ? 2 : 1;
    for (ptrdiff_t k = 0; k < depth; k++) {
        const real *from = NAME(states_before)(plan, panel, at[k]);
        for (ptrdiff_t v = 0; v < width; v++, right += LANES) {
            const ptrdiff_t count = panel.columns - v * LANES < LANES ? panel.columns - v * LANES : LANES;
            store(right, get(from + v * LANES, count));
        }
    }
}

/* The panel's columns of the input and of the 1 that follows it. */
INLINE void NAME(pack_inputs)(const Call *call, NAME(Panel) panel, const ptrdiff_t *at, ptrdiff_t depth, real *right)
{
    const ptrdiff_t inputs = INPUT_COLUMNS(call) - panel.column, width = panel.columns > LANES ? 2 : 1;
    const real *input = (const real *)call->input + panel.column;
    vec one[2] = {{0}, {0}};
    if (inputs < panel.columns) one[inputs / LANES][inputs % LANES] = 1;
    for (ptrdiff_t k = 0; k < depth; k++)
        for (ptrdiff_t v = 0; v < width; v++, right += LANES) {
            const ptrdiff_t there = inputs - v * LANES, count = there < LANES ? there : LANES;
            const real *from = input + at[k] * call->features + v * LANES;
            store(right, count > 0 ? get(from, count) + one[v] : one[v]);
        }
}

/* Prefetches the panel's columns of the next chunk while this one is multiplied. */
INLINE void NAME(fetch_panel)(const Plan *plan, NAME(Panel) panel, const ptrdiff_t *at, ptrdiff_t depth, Ahead *ahead)
{
    const Call *call = plan->call;
    const ptrdiff_t inputs = INPUT_COLUMNS(call) - panel.column;
    for (ptrdiff_t k = 0; k < depth; k++) {
        if (panel.state < STATES)
            add_lines(ahead, NAME(states_before)(plan, panel, at[k]), panel.columns);
        else
            add_lines(ahead, (const real *)call->input + at[k] * call->features + panel.column,
                      inputs < PANEL ? inputs : PANEL);
    }
}

/* Copies the columns of a complete panel to the gradients. */
static void NAME(put_gradient)(const Call *call, NAME(Panel) panel, int64_t product, const real *sums)
{
    const ptrdiff_t m = call->hidden, inputs = INPUT_COLUMNS(call);
    const ptrdiff_t there = inputs - panel.column < panel.columns ? inputs - panel.column : panel.columns;
    for (ptrdiff_t row = 0; row < m; row++) {
        const real *from = sums + row * PANEL;
        const ptrdiff_t to = product * m + row;
        if (panel.state < STATES) {
            real *weight = (real *)call->grad_weight + to * STATES * m;
            copy(weight + panel.state * m + panel.column, from, panel.columns);
            continue;
        }
        if (there > 0) copy((real *)call->grad_input_weight + to * inputs + panel.column, from, there);
        if (there < panel.columns) ((real *)call->grad_bias)[to] = from[there];
    }
}

static int64_t NAME(shares)(const Call *call)
{
    int64_t shares = 1;
    while (call->groups == 1 && shares < MOST_SHARES && call->batch >= 2 * shares * LEAST_SHARE) shares *= 2;
    return shares;
}

/* A chunk of a share: all sequences of several steps, or some sequences of one step. The first step has its own chunk,
   since the states before it are stored elsewhere. */
typedef struct {
    ptrdiff_t step, steps, row, rows;
} NAME(Chunk);

INLINE NAME(Chunk) NAME(chunk_from)(const Call *call, ptrdiff_t share, ptrdiff_t step, ptrdiff_t row)
{
    NAME(Chunk) chunk = {step, 1, row, share - row < CHUNK ? share - row : CHUNK};
    if (step && share <= CHUNK) chunk.steps = CHUNK / share;
    if (chunk.steps > call->steps - step) chunk.steps = call->steps - step;
    return chunk;
}

INLINE NAME(Chunk) NAME(chunk_after)(const Call *call, ptrdiff_t share, NAME(Chunk) chunk)
{
    if (chunk.row + chunk.rows < share) return NAME(chunk_from)(call, share, chunk.step, chunk.row + chunk.rows);
    return NAME(chunk_from)(call, share, chunk.step + chunk.steps, 0);
}

/* The indices of a chunk's rows among those of all steps and groups; `first` is the share's first sequence. */
INLINE ptrdiff_t NAME(rows_at)(const Call *call, int64_t group, ptrdiff_t first, NAME(Chunk) chunk, ptrdiff_t *at)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t step = chunk.step; step < chunk.step + chunk.steps; step++)
        for (ptrdiff_t row = 0; row < chunk.rows; row++)
            at[count++] = (step * call->groups + group) * call->batch + first + chunk.row + row;
    return count;
}

static void NAME(gradient_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Call *call = plan->call;
    const int64_t shares = NAME(shares)(call), part = unit % plan->units, share = unit / plan->units % shares;
    const int64_t all = unit / (plan->units * shares), group = all / PRODUCTS, product = all % PRODUCTS;
    const ptrdiff_t m = call->hidden, each = ROW_TILES(call), next_step = call->groups * call->batch;
    const ptrdiff_t begin = NAME(first_tile)(call, part, plan->units);
    const ptrdiff_t end = NAME(first_tile)(call, part + 1, plan->units);
    const ptrdiff_t first = begin / each, panels = (end + each - 1) / each - first;
    const ptrdiff_t first_row = call->batch * share / shares, rows = call->batch * (share + 1) / shares - first_row;
    const real *grad_drive = call->grad_drive;
    real *packed_left = plan->scratch + worker * (LEFT_SIZE(call) + CHUNK * PANEL);
    real *packed_right = packed_left + LEFT_SIZE(call);
    real *sums = (real *)call->workspace + (all * shares + share) * GRADIENT_SIZE(call);
    if (begin == end) return;
    real *zero = sums + (first * m + begin % each * TILE_ROWS) * PANEL;
    memset(zero, 0, ((end / each * m + end % each * TILE_ROWS) * PANEL - (zero - sums)) * sizeof(real));
    ptrdiff_t at[2][CHUNK]; /* index of each row of this chunk and the next among the rows of all steps */
    NAME(Chunk) chunk = NAME(chunk_from)(call, rows, 0, 0), after;
    for (; rows && chunk.step < call->steps; chunk = after) {
        const ptrdiff_t depth = NAME(rows_at)(call, group, first_row, chunk, at[0]);
        after = NAME(chunk_after)(call, rows, chunk);
        const ptrdiff_t ahead_rows = after.step < call->steps ? NAME(rows_at)(call, group, first_row, after, at[1]) : 0;
        Ahead ahead;
        const real *left = packed_left;
        ptrdiff_t left_stride = TILE_ROWS, tile_size = depth * TILE_ROWS;
        Depths depths = {chunk.rows, chunk.steps, chunk.rows * TILE_ROWS, 0};
        if (IN_PLACE(call)) {
            left = grad_drive + at[0][0] * DRIVES * m + product * m;
            left_stride = DRIVES * m, tile_size = TILE_ROWS, depths.left_jump = next_step * DRIVES * m;
        } else {
            for (ptrdiff_t k = 0; k < depth; k++)
                NAME(pack_row)(plan, product, at[0][k], packed_left + k * TILE_ROWS, tile_size);
        }
        for (ptrdiff_t i = 0; i < panels; i++) {
            const NAME(Panel) panel = NAME(panel_at)(call, first + i);
            const int kind = panel.columns > LANES ? PAIR_ACROSS : SINGLE_ACROSS;
            const real *right = packed_right;
            ptrdiff_t right_stride = panel.columns > LANES ? PANEL : LANES;
            real *sum = sums + (first + i) * m * PANEL;
            depths.right_jump = chunk.rows * right_stride;
            clear(&ahead);
            for (ptrdiff_t k = ahead_rows * i / panels; k < ahead_rows * (i + 1) / panels; k++)
                add_lines(&ahead, grad_drive + at[1][k] * DRIVES * m, DRIVES * m);
            NAME(fetch_panel)(plan, panel, at[1], ahead_rows, &ahead);
            if (panel.state == STATES) {
                NAME(pack_inputs)(call, panel, at[0], depth, packed_right);
            } else if (IN_PLACE(call) && panel.columns % LANES == 0) {
                right = NAME(states_before)(plan, panel, at[0][0]);
                right_stride = m, depths.right_jump = next_step * m;
            } else {
                NAME(pack_states)(plan, panel, at[0], depth, packed_right);
            }
            for (ptrdiff_t t = i ? 0 : begin % each; t < each && (first + i) * each + t < end; t++) {
                const ptrdiff_t row = t * TILE_ROWS, height = m - row < TILE_ROWS ? m - row : TILE_ROWS;
                tiles[height - 1][kind](left + t * tile_size, left_stride, right, right_stride, depths,
                                        sum + row * PANEL, PANEL, 1, &ahead);
            }
        }
    }
}

/* Adds up the shares of one panel, and copies it to the gradients. */
static void NAME(gather_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Call *call = plan->call;
    const int64_t shares = NAME(shares)(call), number = unit % PANELS(call), all = unit / PANELS(call);
    const ptrdiff_t m = call->hidden, size = GRADIENT_SIZE(call);
    real *sums = (real *)call->workspace + all * shares * size + number * m * PANEL;
    (void)worker;
    for (int64_t share = 1; share < shares; share++)
        for (ptrdiff_t j = 0; j < m * PANEL; j += LANES)
            store(sums + j, load(sums + j) + load(sums + share * size + j));
    NAME(put_gradient)(call, NAME(panel_at)(call, number), all, sums);
}

static int64_t NAME(gradient_workspace)(const Call *call)
{
    const int64_t sums = call->groups * PRODUCTS * NAME(shares)(call);
    return sums * GRADIENT_SIZE(call) + call->threads * (LEFT_SIZE(call) + CHUNK * PANEL);
}

static void NAME(weight_gradients)(const Call *call)
{
    Plan plan = {.call = call, .threads = threads_of(call, WEIGHTS(call)), .units = 1};
    const int64_t products = call->groups * PRODUCTS, shares = products * NAME(shares)(call);
    if (PANELS(call) == 0) return;
    /* As few parts per share as give every thread the same number. */
    while (shares * plan.units % plan.threads && plan.units < PANELS(call) * ROW_TILES(call)) plan.units++;
    plan.block = call->steps * call->groups * call->batch * call->hidden;
    plan.scratch = (real *)call->workspace + shares * GRADIENT_SIZE(call);
    cornn_parallel(NAME(gradient_unit), &plan, shares * plan.units, plan.threads);
    cornn_parallel(NAME(gather_unit), &plan, products * PANELS(call), plan.threads);
}
