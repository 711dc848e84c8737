/* Part of sequence.h: the backward pass. */

typedef struct {
    /* Scratch, row after row: gradients of the states, the products, the input, the span. */
    real *adjoint, *delta, *for_input, *for_span;
    const real *constants;
    int past_caches;
    /* Blocks of (time, group, batch, hidden); trail and gradient of the drive are DRIVES times as wide. */
    const real *sequence[STATES], *kept;
    real *grad_drive;
} NAME(Backward);

/* Adds the gradients of one step of a row: of the coefficients or, with spans, of the parameters and the span. */
INLINE void NAME(add_sums)(const Call *call, const NAME(Backward) *b, const Rows *rows, int64_t n, int64_t row,
                           ptrdiff_t j, ptrdiff_t count, const real *span, const vec *k, const vec *kept,
                           const vec *gradient)
{
    const ptrdiff_t m = call->hidden, all = call->groups * call->batch * m, at = rows->place[row] + j;
    const ptrdiff_t offset = rows->number[row] * m + j;
    const real *initial = (const real *)call->state + offset;
    real *sum = (real *)call->sums + offset, *for_span = b->for_span + row * LANES;
    vec before[STATES], after[STATES], for_k[COEFFICIENTS];
    for (int i = 0; i < STATES; i++) {
        before[i] = get(n ? b->sequence[i] + at - all : initial + i * all, count);
        after[i] = get(b->sequence[i] + at, count);
    }
    NAME(for_coefficients)(k, kept, gradient, before, after, for_k);
    if (span) {
        vec parameter[PARAMETERS], for_parameter[PARAMETERS], term;
        for (int i = 0; i < PARAMETERS; i++) parameter[i] = load(b->constants + i * round_up(m, LANES) + j);
        NAME(for_parameters)(parameter, splat(*span), for_k, for_parameter, &term);
        for (int i = 0; i < PARAMETERS; i++) put(sum + i * all, get(sum + i * all, count) + for_parameter[i], count);
        store(for_span, load(for_span) + term);
    } else {
        for (int i = 0; i < COEFFICIENTS; i++) put(sum + i * all, get(sum + i * all, count) + for_k[i], count);
    }
}

/* The adjoint of the update of `count` neurons from j on, of all active rows. */
INLINE void NAME(backward_neurons)(const Call *call, const NAME(Backward) *b, const Rows *rows, int64_t n, ptrdiff_t j,
                                   ptrdiff_t count, const int spans, const int sums)
{
    const ptrdiff_t m = call->hidden, state_stride = STATE_STRIDE(call), product_stride = PRODUCT_STRIDE(call);
    const ptrdiff_t all = call->groups * call->batch * m;
    const real *grad_output = call->grad_output, *initial = call->state, *span = NULL;
    vec k[COEFFICIENTS];
    NAME(at_span)(b->constants + j, round_up(m, LANES), NULL, k);
    for (int64_t row = 0; row < rows->active; row++) {
        const ptrdiff_t at = rows->place[row] + j, wide = rows->place[row] * DRIVES + j;
        real *adjoint = b->adjoint + row * state_stride + j, *delta = b->delta + row * product_stride + j;
        vec gradient[STATES], kept[DRIVES], for_pre[DRIVES], before[STATES] = {0};
        if (spans) {
            span = (const real *)call->timespans + n * call->groups * call->batch + rows->number[row];
            NAME(at_span)(b->constants + j, round_up(m, LANES), span, k);
        }
        for (int i = 0; i < STATES; i++) gradient[i] = get(adjoint + i * m, count);
        for (int i = 0; i < DRIVES; i++) kept[i] = get(b->kept + wide + i * m, count);
        for (int i = 0; i < STATES && LOOKS_BACK; i++)
            before[i] = get(n ? b->sequence[i] + at - all : initial + i * all + rows->number[row] * m + j, count);
        if (grad_output) gradient[0] += get(grad_output + at, count);
        if (sums) NAME(add_sums)(call, b, rows, n, row, j, count, span, k, kept, gradient);
        NAME(adjoint)(k, kept, before, gradient, for_pre);
        for (int i = 0; i < STATES; i++) put(adjoint + i * m, gradient[i], count);
        for (int i = 0; i < DRIVES; i++)
            put_past(b->grad_drive + wide + i * m, for_pre[i], count, b->past_caches);
        if (PRODUCTS < DRIVES)
            for (int i = 1; i < DRIVES; i++) for_pre[0] += for_pre[i];
        for (int i = 0; i < PRODUCTS; i++) put(delta + i * m, for_pre[i], count);
    }
}

static void NAME(backward_step)(const Call *call, const NAME(Backward) *b, const Rows *rows, int64_t n)
{
    if (TIMED && call->timespans && call->sums)
        EACH_VECTOR(call->hidden, NAME(backward_neurons), call, b, rows, n, j, count, 1, 1);
    else if (TIMED && call->timespans)
        EACH_VECTOR(call->hidden, NAME(backward_neurons), call, b, rows, n, j, count, 1, 0);
    else if (call->sums)
        EACH_VECTOR(call->hidden, NAME(backward_neurons), call, b, rows, n, j, count, 0, 1);
    else
        EACH_VECTOR(call->hidden, NAME(backward_neurons), call, b, rows, n, j, count, 0, 0);
}

/* After the end of a row its state is constant: only the gradient of its output is added. */
static void NAME(backward_past_end)(const Call *call, const NAME(Backward) *b, const Rows *rows, int64_t row)
{
    const ptrdiff_t m = call->hidden, at = rows->place[row];
    const real *grad_output = call->grad_output;
    real *adjoint = b->adjoint + row * STATE_STRIDE(call);
    if (grad_output)
        for (ptrdiff_t j = 0; j < m; j++) adjoint[j] += grad_output[at + j];
    memset(b->grad_drive + at * DRIVES, 0, DRIVES * m * sizeof(real));
    if (call->grad_input)
        memset((real *)call->grad_input + rows->at[row] * call->features, 0, call->features * sizeof(real));
}

/* Converts a row's gradients of the coefficients to gradients of the parameters. */
static void NAME(finish_sums)(const Call *call, const NAME(Backward) *b, int64_t number)
{
    const ptrdiff_t m = call->hidden, all = call->groups * call->batch * m;
    for (ptrdiff_t j = 0; j < m; j += LANES) {
        const ptrdiff_t count = m - j < LANES ? m - j : LANES;
        real *sum = (real *)call->sums + number * m + j;
        vec parameter[PARAMETERS], for_k[COEFFICIENTS], for_parameter[PARAMETERS], for_span;
        for (int i = 0; i < PARAMETERS; i++) parameter[i] = load(b->constants + i * round_up(m, LANES) + j);
        for (int i = 0; i < COEFFICIENTS; i++) for_k[i] = get(sum + i * all, count);
        NAME(for_parameters)(parameter, splat(1), for_k, for_parameter, &for_span);
        for (int i = 0; i < PARAMETERS; i++) put(sum + i * all, for_parameter[i], count);
    }
}

static void NAME(backward_unit)(void *context, int64_t unit, int64_t worker)
{
    const Plan *plan = context;
    const Call *call = plan->call;
    const ptrdiff_t m = call->hidden, all = call->groups * call->batch * m, stride = STATE_STRIDE(call);
    const ptrdiff_t inputs = INPUTS(call), before = -call->groups * call->batch;
    const real *trail = call->trail, *grad_last = call->grad_last, *grad_output = call->grad_output;
    const real *packed, *packed_input;
    real *grad_timespans = call->grad_timespans, *grad_state = call->grad_state, *grad_input = call->grad_input;
    Rows rows = rows_of(plan, unit);
    Ahead ahead;
    NAME(Backward) b = {.past_caches = goes_past_caches(plan, call->grad_drive)};
    b.adjoint = plan->scratch + worker * SCRATCH_SIZE(call);
    b.delta = b.adjoint + UNIT_ROWS * stride;
    b.for_input = b.delta + UNIT_ROWS * PRODUCT_STRIDE(call);
    b.for_span = b.for_input + UNIT_ROWS * INPUT_STRIDE(call);
    b.constants = plan->constants + rows.group * CONSTANTS_SIZE(call);
    packed = plan->packed + rows.group * plan->packed_size;
    packed_input = plan->packed_input + rows.group * plan->packed_size;
    for (int i = 0; i < STATES; i++) b.sequence[i] = i ? trail + (i - 1) * plan->block : call->output;
    b.kept = trail + (STATES - 1) * plan->block;
    b.grad_drive = call->grad_drive;

    memset(b.adjoint, 0, rows.count * stride * sizeof(real));
    if (grad_last)
        for (int64_t row = 0; row < rows.count; row++)
            for (int i = 0; i < STATES; i++)
                copy(b.adjoint + row * stride + i * m, grad_last + i * all + rows.number[row] * m, m);
    for (int64_t n = call->steps - 1; n >= 0; n--) {
        while (rows.active < rows.count && rows.length[rows.active] > n) rows.active++;
        at_step(call, &rows, n);
        memset(b.for_span, 0, rows.count * LANES * sizeof(real));
        NAME(backward_step)(call, &b, &rows, n);
        clear(&ahead);
        if (n > 0) {
            prefetch(&ahead, &rows, b.kept, before, DRIVES * m);
            if (grad_output) prefetch(&ahead, &rows, grad_output, before, m);
            if (!b.past_caches) prefetch(&ahead, &rows, b.grad_drive, before, DRIVES * m);
        }
        product(rows.active, b.delta, PRODUCT_STRIDE(call), packed, PRODUCTS * m, STATES * m, b.adjoint, stride, 1,
                &ahead);
        if (grad_input) {
            product(rows.active, b.delta, PRODUCT_STRIDE(call), packed_input, PRODUCTS * m, inputs, b.for_input,
                    INPUT_STRIDE(call), 0, &ahead);
            for (int64_t row = 0; row < rows.active; row++)
                copy(grad_input + rows.at[row] * inputs, b.for_input + row * INPUT_STRIDE(call), inputs);
        }
        for (int64_t row = rows.active; row < rows.count; row++) NAME(backward_past_end)(call, &b, &rows, row);
        if (grad_timespans)
            for (int64_t row = 0; row < rows.count; row++)
                grad_timespans[n * call->groups * call->batch + rows.number[row]] =
                    sum_of(load(b.for_span + row * LANES));
    }
    drain();
    for (int64_t row = 0; row < rows.count; row++) {
        for (int i = 0; i < STATES; i++)
            copy(grad_state + i * all + rows.number[row] * m, b.adjoint + row * stride + i * m, m);
        if (call->sums && !call->timespans) NAME(finish_sums)(call, &b, rows.number[row]);
    }
}

static void NAME(backward)(const Call *call)
{
    Plan plan = NAME(plan)(call, 1);
    cornn_parallel(NAME(backward_unit), &plan, plan.units * call->groups, plan.threads);
}
