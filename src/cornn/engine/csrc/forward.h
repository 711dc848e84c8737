/* Part of sequence.h. */

typedef struct {
    real *state, *pre;               /* scratch, a row after the other */
    const real *constants;
    const real *drive[DRIVES];       /* these are blocks of (time, group, batch, hidden) */
    real *sequence[STATES];          /* where a state goes at every step, or NULL */
    real *kept[KEPT];
} NAME(Forward);

/* The update of up to LANES neurons of all active rows, from neuron j on. */
INLINE void NAME(forward_neurons)(const Problem *p, const NAME(Forward) *f, const Rows *rows, int64_t n, ptrdiff_t j,
                                  ptrdiff_t count, const int spans)
{
    const ptrdiff_t m = p->hidden, state_stride = STATE_STRIDE(p), product_stride = PRODUCT_STRIDE(p);
    const real *timespans = p->timespans;
    vec k[COEFFICIENTS];
    NAME(at_span)(f->constants + j, round_up(m, LANES), NULL, k);
    for (int64_t row = 0; row < rows->active; row++) {
        const ptrdiff_t at = place(p, rows, n, row) + j;
        real *scratch = f->state + row * state_stride + j;
        vec state[STATES], pre[DRIVES], kept[KEPT];
        if (spans) {
            const real *span = timespans + n * p->groups * p->batch + rows->number[row];
            NAME(at_span)(f->constants + j, round_up(m, LANES), span, k);
        }
        for (int i = 0; i < STATES; i++) state[i] = get(scratch + i * m, count);
        for (int i = 0; i < DRIVES; i++)
            pre[i] = get(f->pre + row * product_stride + i % PRODUCTS * m + j, count) + get(f->drive[i] + at, count);
        NAME(step)(k, pre, state, kept);
        for (int i = 0; i < STATES; i++) {
            put(scratch + i * m, state[i], count);
            if (f->sequence[i]) put(f->sequence[i] + at, state[i], count);
        }
        for (int i = 0; i < KEPT; i++)
            if (f->kept[i]) put(f->kept[i] + at, kept[i], count);
    }
}

static void NAME(forward_step)(const Problem *p, const NAME(Forward) *f, const Rows *rows, int64_t n)
{
    const ptrdiff_t m = p->hidden;
    ptrdiff_t j = 0;
    if (p->timespans) {
        for (; j + LANES <= m; j += LANES) NAME(forward_neurons)(p, f, rows, n, j, LANES, 1);
        if (j < m) NAME(forward_neurons)(p, f, rows, n, j, m - j, 1);
    } else {
        for (; j + LANES <= m; j += LANES) NAME(forward_neurons)(p, f, rows, n, j, LANES, 0);
        if (j < m) NAME(forward_neurons)(p, f, rows, n, j, m - j, 0);
    }
}

static void NAME(forward_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Problem *p = plan->problem;
    const ptrdiff_t m = p->hidden, state_stride = STATE_STRIDE(p), row_bytes = m * sizeof(real);
    const ptrdiff_t state_size = p->groups * p->batch * m;
    Rows rows = rows_of(plan, unit);
    real *trail = p->trail;
    NAME(Forward) f = {.state = plan->scratch + worker * SCRATCH_SIZE(p)};
    f.pre = f.state + UNIT_ROWS * state_stride;
    f.constants = plan->constants + rows.group * CONSTANTS_SIZE(p);
    const int64_t blocks = p->keep ? STATES - 1 + KEPT : DRIVES;
    for (int i = 0; i < DRIVES; i++) f.drive[i] = trail + (blocks - DRIVES + i) * plan->block;
    for (int i = 0; i < STATES; i++)
        f.sequence[i] = i == 0 ? p->output : p->keep ? trail + (i - 1) * plan->block : NULL;
    for (int i = 0; i < KEPT; i++) f.kept[i] = p->keep ? trail + (STATES - 1 + i) * plan->block : NULL;

    for (int64_t row = 0; row < rows.count; row++)
        for (int i = 0; i < STATES; i++)
            memcpy(f.state + row * state_stride + i * m,
                   (const real *)p->state + i * state_size + rows.number[row] * m, row_bytes);
    const real *packed = plan->packed + rows.group * plan->packed_size;
    rows.active = rows.count;
    for (int64_t n = 0; n < p->steps; n++) {
        while (rows.active > 0 && rows.length[rows.active - 1] <= n) rows.active--;
        product(rows.active, f.state, state_stride, packed, STATES * m, PRODUCTS * m, f.pre, PRODUCT_STRIDE(p), 0);
        NAME(forward_step)(p, &f, &rows, n);
        for (int64_t row = rows.active; row < rows.count; row++)
            for (int i = 0; i < STATES; i++)
                if (f.sequence[i])
                    memcpy(f.sequence[i] + place(p, &rows, n, row), f.state + row * state_stride + i * m, row_bytes);
    }
    for (int64_t row = 0; row < rows.count; row++)
        for (int i = 0; i < STATES; i++)
            memcpy((real *)p->last + i * state_size + rows.number[row] * m, f.state + row * state_stride + i * m,
                   row_bytes);
}

static void NAME(forward)(const Problem *p)
{
    Plan plan = NAME(plan)(p, 0);
    cornn_parallel(NAME(forward_unit), &plan, plan.units * p->groups, plan.threads);
}
