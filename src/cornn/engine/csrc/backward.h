/* Part of sequence.h. */

typedef struct {
    real *adjoint, *delta, *for_span; /* scratch, a row after the other: of the states, the products, the span */
    const real *constants;
    const real *sequence[STATES];     /* these are blocks of (time, group, batch, hidden) */
    const real *kept[KEPT];
    real *grad_drive[DRIVES];
} NAME(Backward);

/* The adjoint of the update of up to LANES neurons of all active rows, from neuron j on. */
INLINE void NAME(backward_neurons)(const Problem *p, const NAME(Backward) *b, const Rows *rows, int64_t n, ptrdiff_t j,
                                   ptrdiff_t count, const int spans, const int sums)
{
    const ptrdiff_t m = p->hidden, padded = round_up(m, LANES), all = p->groups * p->batch * m;
    const real *timespans = p->timespans, *grad_output = p->grad_output, *constants = b->constants + j;
    vec k[COEFFICIENTS], parameter[PARAMETERS];
    NAME(at_span)(constants, padded, NULL, k);
    for (int i = 0; i < PARAMETERS; i++) parameter[i] = load(constants + i * padded);
    for (int64_t row = 0; row < rows->active; row++) {
        const ptrdiff_t at = place(p, rows, n, row) + j;
        real *adjoint = b->adjoint + row * STATE_STRIDE(p) + j, *delta = b->delta + row * PRODUCT_STRIDE(p) + j;
        vec gradient[STATES], kept[KEPT], for_pre[DRIVES], span = splat(1);
        if (spans) {
            const real *from = timespans + n * p->groups * p->batch + rows->number[row];
            span = splat(*from);
            NAME(at_span)(constants, padded, from, k);
        }
        for (int i = 0; i < STATES; i++) gradient[i] = get(adjoint + i * m, count);
        for (int i = 0; i < KEPT; i++) kept[i] = get(b->kept[i] + at, count);
        if (grad_output) gradient[0] += get(grad_output + at, count);
        if (sums) {
            vec before[STATES], after[STATES], for_k[COEFFICIENTS];
            real *total = (real *)p->sums + rows->number[row] * m + j;
            for (int i = 0; i < STATES; i++) {
                const real *initial = (const real *)p->state + i * all + rows->number[row] * m + j;
                before[i] = get(n ? b->sequence[i] + at - all : initial, count);
                after[i] = get(b->sequence[i] + at, count);
            }
            NAME(for_coefficients)(k, kept, gradient, before, after, for_k);
            if (spans) {
                vec for_parameter[PARAMETERS], for_span;
                NAME(for_parameters)(parameter, span, for_k, for_parameter, &for_span);
                for (int i = 0; i < PARAMETERS; i++)
                    put(total + i * all, get(total + i * all, count) + for_parameter[i], count);
                store(b->for_span + row * LANES, load(b->for_span + row * LANES) + for_span);
            } else {
                for (int i = 0; i < COEFFICIENTS; i++)
                    put(total + i * all, get(total + i * all, count) + for_k[i], count);
            }
        }
        NAME(adjoint)(k, kept, gradient, for_pre);
        for (int i = 0; i < STATES; i++) put(adjoint + i * m, gradient[i], count);
        for (int i = 0; i < DRIVES; i++) put(b->grad_drive[i] + at, for_pre[i], count);
        if (PRODUCTS < DRIVES)
            for (int i = 1; i < DRIVES; i++) for_pre[0] += for_pre[i];
        for (int i = 0; i < PRODUCTS; i++) put(delta + i * m, for_pre[i], count);
    }
}

#define NEURONS(spans, sums)                                                                               \
    do {                                                                                                   \
        ptrdiff_t j = 0;                                                                                   \
        for (; j + LANES <= m; j += LANES) NAME(backward_neurons)(p, b, rows, n, j, LANES, spans, sums);   \
        if (j < m) NAME(backward_neurons)(p, b, rows, n, j, m - j, spans, sums);                           \
    } while (0)

static void NAME(backward_step)(const Problem *p, const NAME(Backward) *b, const Rows *rows, int64_t n)
{
    const ptrdiff_t m = p->hidden;
    if (p->timespans && p->sums)
        NEURONS(1, 1);
    else if (p->timespans)
        NEURONS(1, 0);
    else if (p->sums)
        NEURONS(0, 1);
    else
        NEURONS(0, 0);
}

#undef NEURONS

/* Past its end a row's state stays as it is, so that only the gradient of the output is gathered. */
static void NAME(backward_past_end)(const Problem *p, const NAME(Backward) *b, const Rows *rows, int64_t n, int64_t row)
{
    const ptrdiff_t m = p->hidden, at = place(p, rows, n, row);
    const real *grad_output = p->grad_output;
    if (grad_output)
        for (ptrdiff_t j = 0; j < m; j++) b->adjoint[row * STATE_STRIDE(p) + j] += grad_output[at + j];
    for (int i = 0; i < DRIVES; i++) memset(b->grad_drive[i] + at, 0, m * sizeof(real));
}

/* Turns a row's sums for the coefficients into those for the parameters, where all spans were 1. */
static void NAME(finish_sums)(const Problem *p, const NAME(Backward) *b, int64_t number)
{
    const ptrdiff_t m = p->hidden, padded = round_up(m, LANES), all = p->groups * p->batch * m;
    for (ptrdiff_t j = 0; j < m; j += LANES) {
        const ptrdiff_t count = m - j < LANES ? m - j : LANES;
        real *total = (real *)p->sums + number * m + j;
        vec parameter[PARAMETERS], for_k[COEFFICIENTS], for_parameter[PARAMETERS], for_span;
        for (int i = 0; i < PARAMETERS; i++) parameter[i] = load(b->constants + i * padded + j);
        for (int i = 0; i < COEFFICIENTS; i++) for_k[i] = load_part(total + i * all, count);
        NAME(for_parameters)(parameter, splat(1), for_k, for_parameter, &for_span);
        for (int i = 0; i < PARAMETERS; i++) store_part(total + i * all, for_parameter[i], count);
    }
}

static void NAME(backward_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Problem *p = plan->problem;
    const ptrdiff_t m = p->hidden, state_stride = STATE_STRIDE(p), row_bytes = m * sizeof(real);
    const ptrdiff_t all = p->groups * p->batch * m;
    Rows rows = rows_of(plan, unit);
    const real *trail = p->trail, *grad_last = p->grad_last;
    real *grad_timespans = p->grad_timespans;
    NAME(Backward) b = {.adjoint = plan->scratch + worker * SCRATCH_SIZE(p)};
    b.delta = b.adjoint + UNIT_ROWS * state_stride;
    b.for_span = b.delta + UNIT_ROWS * PRODUCT_STRIDE(p);
    b.constants = plan->constants + rows.group * CONSTANTS_SIZE(p);
    for (int i = 0; i < STATES; i++) b.sequence[i] = i == 0 ? p->output : trail + (i - 1) * plan->block;
    for (int i = 0; i < KEPT; i++) b.kept[i] = trail + (STATES - 1 + i) * plan->block;
    for (int i = 0; i < DRIVES; i++) b.grad_drive[i] = (real *)p->grad_drive + i * plan->block;

    memset(b.adjoint, 0, rows.count * state_stride * sizeof(real));
    if (grad_last)
        for (int64_t row = 0; row < rows.count; row++)
            for (int i = 0; i < STATES; i++)
                memcpy(b.adjoint + row * state_stride + i * m, grad_last + i * all + rows.number[row] * m, row_bytes);
    const real *packed = plan->packed + rows.group * plan->packed_size;
    rows.active = 0;
    for (int64_t n = p->steps - 1; n >= 0; n--) {
        while (rows.active < rows.count && rows.length[rows.active] > n) rows.active++;
        memset(b.for_span, 0, rows.count * LANES * sizeof(real));
        NAME(backward_step)(p, &b, &rows, n);
        product(rows.active, b.delta, PRODUCT_STRIDE(p), packed, PRODUCTS * m, STATES * m, b.adjoint, state_stride, 1);
        for (int64_t row = rows.active; row < rows.count; row++) NAME(backward_past_end)(p, &b, &rows, n, row);
        if (grad_timespans)
            for (int64_t row = 0; row < rows.count; row++)
                grad_timespans[n * p->groups * p->batch + rows.number[row]] = sum_of(load(b.for_span + row * LANES));
    }
    for (int64_t row = 0; row < rows.count; row++) {
        for (int i = 0; i < STATES; i++)
            memcpy((real *)p->grad_state + i * all + rows.number[row] * m, b.adjoint + row * state_stride + i * m,
                   row_bytes);
        if (p->sums && !p->timespans) NAME(finish_sums)(p, &b, rows.number[row]);
    }
}

static void NAME(backward)(const Problem *p)
{
    Plan plan = NAME(plan)(p, 1);
    cornn_parallel(NAME(backward_unit), &plan, plan.units * p->groups, plan.threads);
}
