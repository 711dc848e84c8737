/* Part of sequence.h: the forward pass. */

typedef struct {
    real *state, *product; /* scratch, row after row */
    const real *constants;
    int past_caches;
    const real *drive; /* (time, group, batch, DRIVES * hidden), if there is no input map */
    /* Blocks of (time, group, batch, hidden), and one as wide as the drive; NULL if not needed. */
    real *sequence[STATES], *kept;
} NAME(Forward);

/* The update of `count` neurons from j on, of all active rows. */
INLINE void NAME(forward_neurons)(const Call *call, const NAME(Forward) *f, const Rows *rows, int64_t n, ptrdiff_t j,
                                  ptrdiff_t count, const int spans, const int drives)
{
    const ptrdiff_t m = call->hidden, state_stride = STATE_STRIDE(call), product_stride = PRODUCT_STRIDE(call);
    const real *spans_of_step = spans ? (const real *)call->timespans + n * call->groups * call->batch : NULL;
    vec k[COEFFICIENTS];
    NAME(at_span)(f->constants + j, round_up(m, LANES), NULL, k);
    for (int64_t row = 0; row < rows->active; row++) {
        const ptrdiff_t at = rows->place[row] + j, wide = rows->place[row] * DRIVES + j;
        const real *product = f->product + row * product_stride + j;
        real *scratch = f->state + row * state_stride + j;
        vec state[STATES], pre[DRIVES], kept[DRIVES];
        if (spans) NAME(at_span)(f->constants + j, round_up(m, LANES), spans_of_step + rows->number[row], k);
        for (int i = 0; i < STATES; i++) state[i] = get(scratch + i * m, count);
        for (int i = 0; i < DRIVES; i++) {
            pre[i] = get(product + i % PRODUCTS * m, count);
            if (drives) pre[i] += get(f->drive + wide + i * m, count);
        }
        NAME(step)(k, pre, state, kept);
        for (int i = 0; i < STATES; i++) {
            put(scratch + i * m, state[i], count);
            if (f->sequence[i]) put_past(f->sequence[i] + at, state[i], count, f->past_caches);
        }
        for (int i = 0; i < DRIVES; i++)
            if (f->kept) put_past(f->kept + wide + i * m, kept[i], count, f->past_caches);
    }
}

static void NAME(forward_step)(const Call *call, const NAME(Forward) *f, const Rows *rows, int64_t n)
{
    if (TIMED && call->timespans && !call->input_weight)
        EACH_VECTOR(call->hidden, NAME(forward_neurons), call, f, rows, n, j, count, 1, 1);
    else if (TIMED && call->timespans)
        EACH_VECTOR(call->hidden, NAME(forward_neurons), call, f, rows, n, j, count, 1, 0);
    else if (!call->input_weight)
        EACH_VECTOR(call->hidden, NAME(forward_neurons), call, f, rows, n, j, count, 0, 1);
    else
        EACH_VECTOR(call->hidden, NAME(forward_neurons), call, f, rows, n, j, count, 0, 0);
}

static void NAME(forward_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Call *call = plan->call;
    const ptrdiff_t m = call->hidden, all = call->groups * call->batch * m, stride = STATE_STRIDE(call);
    const ptrdiff_t inputs = INPUTS(call), depth = DEPTH(call), next = call->groups * call->batch;
    const real *initial = call->state, *input = call->input, *packed;
    real *trail = call->trail, *last = call->last;
    Rows rows = rows_of(plan, unit);
    Ahead ahead;
    NAME(Forward) f = {.past_caches = 1};
    f.state = plan->scratch + worker * SCRATCH_SIZE(call);
    f.product = f.state + UNIT_ROWS * stride;
    f.constants = plan->constants + rows.group * CONSTANTS_SIZE(call);
    packed = plan->packed + rows.group * plan->packed_size;
    f.drive = input;
    f.sequence[0] = call->output;
    if (trail) {
        for (int i = 1; i < STATES; i++) f.sequence[i] = trail + (i - 1) * plan->block;
        f.kept = trail + (STATES - 1) * plan->block;
    }
    for (int i = 0; i < STATES; i++) f.past_caches &= goes_past_caches(plan, f.sequence[i]);
    f.past_caches &= goes_past_caches(plan, f.kept);

    for (int64_t row = 0; row < rows.count; row++) {
        for (int i = 0; i < STATES; i++)
            copy(f.state + row * stride + i * m, initial + i * all + rows.number[row] * m, m);
        if (call->bias) f.state[row * stride + depth - 1] = 1;
    }
    rows.active = rows.count;
    for (int64_t n = 0; n < call->steps; n++) {
        while (rows.active > 0 && rows.length[rows.active - 1] <= n) rows.active--;
        at_step(call, &rows, n);
        for (int64_t row = 0; row < rows.active; row++)
            copy(f.state + row * stride + STATES * m, input + rows.at[row] * inputs, inputs);
        clear(&ahead);
        if (n + 1 < call->steps && inputs) prefetch(&ahead, &rows, input, next, inputs);
        if (n + 1 < call->steps && !inputs) prefetch(&ahead, &rows, f.drive, next, DRIVES * m);
        for (int i = 0; i < STATES && !f.past_caches; i++)
            if (f.sequence[i]) prefetch(&ahead, &rows, f.sequence[i], 0, m);
        if (f.kept && !f.past_caches) prefetch(&ahead, &rows, f.kept, 0, DRIVES * m);
        product(rows.active, f.state, stride, packed, depth, PRODUCTS * m, f.product, PRODUCT_STRIDE(call), 0,
                &ahead);
        NAME(forward_step)(call, &f, &rows, n);
        for (int64_t row = rows.active; row < rows.count; row++)
            for (int i = 0; i < STATES; i++)
                if (f.sequence[i]) copy(f.sequence[i] + rows.place[row], f.state + row * stride + i * m, m);
    }
    drain();
    for (int64_t row = 0; row < rows.count; row++)
        for (int i = 0; i < STATES; i++)
            copy(last + i * all + rows.number[row] * m, f.state + row * stride + i * m, m);
}

static void NAME(forward)(const Call *call)
{
    Plan plan = NAME(plan)(call, 0);
    cornn_parallel(NAME(forward_unit), &plan, plan.units * call->groups, plan.threads);
}
