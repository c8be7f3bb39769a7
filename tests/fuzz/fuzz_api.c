/* tests/fuzz/fuzz_api.c - interprets bytes as a program of operations, views, in-place operations,
 * scopes, first- and second-order gradients, hooks and checkpoints on a few tensors, and of the
 * actions of api_*.c on modules, optimizers, datasets and more.
 *
 * Each byte chooses an instruction or one of its arguments: a tensor, a dimension, a number.
 * Invalid calls must fail with an error. No action may leave a scope open or change the grad mode.
 * At the end no tensor may be live.
 *
 * An operation is one line of api_operations.def: its name, the kinds of its arguments for draw(),
 * and an expression that returns a tensor. New instructions go to the end of the tables, because
 * the corpus has the numbers of instructions. */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/api.h"

#include <math.h>

enum {
    TENSORS = 8,
    SCOPES = 4,
    MAX_STEPS = 60,
    MAX_ELEMENTS = 300, /* larger results are dropped, to keep programs small */
};

static const fuzz_seed seeds[] = {
    SEED("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36"),
    SEED("\200\300\1\2\3\4\5\6\7\5\4\3\2\1\100\110\120\130\140\150\160\170\177\7\6\5\4\3\2\1"),
    SEED("to be, or not to be, that is the question: whether 'tis nobler in the mind to suffer"),
};

/* ---- The program ----------------------------------------------------------------------------- */

static struct {
    const uint8_t *p, *end;
    br_tensor *tensors[TENSORS]; /* retained; may be NULL, which most functions reject */
    br_scope *scopes[SCOPES];
    int n_scopes;
    int64_t sizes[4];
    bool anomalies; /* anomaly detection is on: an operation may return a result and an error */
    bool fail_next; /* the next instruction begins with a pending error */
    bool failing;   /* this instruction began with a pending error */
} m;

static uint8_t byte(void)
{
    return m.p < m.end ? *m.p++ : 0;
}

static br_tensor **slot(void)
{
    return &m.tensors[byte() % TENSORS];
}

static double scalar(void)
{
    static const double numbers[] = { 0, 1, -1, 0.5, 2, 3, -2.5, 1e300, INFINITY, NAN };
    return numbers[byte() % (sizeof numbers / sizeof *numbers)];
}

static int shape(void)
{
    int n = byte() % 5;
    for (int i = 0; i < n; i++)
        m.sizes[i] = byte() % 16 == 15 ? -1 : byte() % 4;
    return n;
}

/* Arguments by type. Each is drawn by a statement of its own, because the order in which a call's
 * arguments are computed depends on the compiler. */
#define T     (*slot())
#define I     ((int64_t)(byte() % 9) - 3) /* a dimension or an index, valid or not */
#define B     (byte() % 2 != 0)
#define DTYPE ((br_dtype)(byte() % 4))

/* The arguments of an operation. */
typedef struct drawn {
    br_tensor *t[3];
    int64_t i[4];
    double x;
    int ndim; /* of the shape in m.sizes */
    bool on;
    br_dtype dtype;
} drawn;

/* Draws arguments of these kinds, in this order: T, I, B, D (a dtype), X (a number), S (a shape).
 */
static drawn draw(const char *kinds)
{
    drawn d = { .ndim = 0 };
    int tensors = 0, integers = 0;
    for (; *kinds; kinds++)
        switch (*kinds) {
        case 'T':
            d.t[tensors++] = T;
            break;
        case 'I':
            d.i[integers++] = I;
            break;
        case 'B':
            d.on = B;
            break;
        case 'D':
            d.dtype = DTYPE;
            break;
        case 'X':
            d.x = scalar();
            break;
        default:
            d.ndim = shape();
        }
    return d;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static br_tensor *new_tensor(void)
{
    int n = shape();
    const drawn d = draw("XD");
    br_tensor *t = br_full(n, m.sizes, d.x, d.dtype);
    return byte() % 2 ? br_set_requires_grad(t, true) : t;
}

static br_tensor *new_ramp(void)
{
    const int end = byte() % 7;
    const br_dtype dtype = B ? BR_F32 : BR_F64;
    const bool on = B;
    return br_set_requires_grad(br_arange(0, end, 0.5, dtype), on);
}

static br_tensor *gradient(void)
{
    br_tensor *output = T, *input = T, *result = NULL;
    const bool create = B, retain = B;
    br_grad(1, &output, 1, &input, &result,
            BR_OPTIONS(br_grad, .create_graph = create, .retain_graph = retain,
                       .materialize_grads = true));
    return result;
}

static br_tensor *composed(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul(br_exp(inputs[0]), br_sin(inputs[1]));
}

static br_tensor *checkpointed(void)
{
    drawn d = draw("TT");
    return br_activation_checkpoint(composed, NULL, 2, d.t, NULL);
}

/* Its forward computes gradients, which backward overwrites or keeps. */
static br_tensor *chunked_loss(void)
{
    br_tensor *x = T, *weight = T;
    br_tensor *target = x && br_ndim(x) == 2 ? br_zeros(BR_SHAPE(br_size(x, 0)), BR_I64) : T;
    const br_reduction reduction = B ? BR_REDUCTION_SUM : BR_REDUCTION_NONE;
    const int size = byte() % 3;
    return br_linear_cross_entropy(x, weight, target,
                                   BR_OPTIONS(br_linear_cross_entropy, .reduction = reduction,
                                              .chunked = true, .batch_chunk_size = size));
}

#define X(name, kinds, expression)     \
    static br_tensor *run_##name(void) \
    {                                  \
        const drawn d = draw(kinds);   \
        (void)d;                       \
        return (expression);           \
    }
#include "tests/fuzz/api_operations.def"
#undef X

/* ---- Actions without a result ---------------------------------------------------------------- */

static void keep(br_tensor **place, br_tensor *t)
{
    br_tensor *old = *place;
    *place = t && br_numel(t) <= MAX_ELEMENTS ? br_retain(t) : NULL;
    br_release(old);
}

static void drop(void)
{
    keep(slot(), NULL);
}

static void share(void)
{
    br_tensor **place = slot();
    keep(place, T);
}

static void open_scope(void)
{
    static br_scope *(*const kinds[])(void) = { br_scope_begin, br_no_grad_begin,
                                                br_enable_grad_begin };
    if (m.n_scopes < SCOPES)
        m.scopes[m.n_scopes++] = kinds[byte() % 3]();
}

/* Closes one of the open scopes, which also closes the scopes inside it. */
static void close_scope(void)
{
    if (m.n_scopes == 0)
        return;
    m.n_scopes = byte() % m.n_scopes;
    br_scope_end(m.scopes[m.n_scopes]);
}

static void leave_scope(void)
{
    br_scope_return(NULL, T);
}

static void backward(void)
{
    br_tensor *t = T;
    const bool create = B, retain = B;
    br_backward_with(t, BR_OPTIONS(br_backward, .create_graph = create, .retain_graph = retain));
}

static void backward_from_ones(void)
{
    br_tensor *t = T;
    if (!t)
        return;
    const bool create = B, retain = B;
    br_backward_with(t, BR_OPTIONS(br_backward, .gradient = br_ones_like(t), .create_graph = create,
                                   .retain_graph = retain));
}

static void set_grad(void)
{
    const drawn d = draw("TT");
    br_set_grad(d.t[0], d.t[1]);
}

static void drop_grad(void)
{
    br_set_grad(T, NULL);
}

static uint64_t last_hook;
static br_tensor *hooked; /* retained */

static br_tensor *double_it(br_tensor *grad, void *context)
{
    return context ? br_mul_scalar(grad, 2) : NULL;
}

static br_tensor *remove_itself(br_tensor *grad, void *context)
{
    (void)context;
    (void)grad;
    br_remove_hook(hooked, last_hook);
    return NULL;
}

static void add_hook(void)
{
    keep(&hooked, T);
    const br_hook_fn hook = B ? double_it : remove_itself;
    last_hook = br_register_hook(hooked, hook, B ? &last_hook : NULL);
}

static void remove_hook(void)
{
    br_remove_hook(hooked, last_hook);
}

static void look_for_anomalies(void)
{
    m.anomalies = B;
    br_set_detect_anomaly(m.anomalies ? BR_ANOMALY_NONFINITE : BR_ANOMALY_OFF);
}

static void set_grad_mode(void)
{
    br_set_grad_enabled(B);
}

static void fail_next(void)
{
    m.fail_next = true;
}

/* `run` must return a tensor or set an error. Instructions with `act` have no result. The actions
 * of parts[] follow. */
static const struct {
    br_tensor *(*run)(void);
    void (*act)(void);
} instructions[] = {
#define X(name, kinds, expression) { run_##name, NULL },
#include "tests/fuzz/api_operations.def"
#undef X
    { NULL, drop },
    { NULL, share },
    { NULL, open_scope },
    { NULL, close_scope },
    { NULL, leave_scope },
    { NULL, backward },
    { NULL, backward },
    { NULL, backward_from_ones },
    { NULL, backward_from_ones },
    { NULL, set_grad },
    { NULL, drop_grad },
    { NULL, add_hook },
    { NULL, remove_hook },
    { NULL, look_for_anomalies },
    { NULL, set_grad_mode },
    { NULL, fail_next },
};

static const api_part *const parts[] = {
    &api_modules, &api_training, &api_optim, &api_data, &api_modes,
};

/* ---- Actions of api_*.c ---------------------------------------------------------------------- */

static api_args arguments(void)
{
    static const int8_t sizes[] = { 2, 3, 1, 4, 2, 3, 2, 1, 3, 2, 0, 6, 1, 2, -1, 3 };
    static const double numbers[] = { 0.1, 0.5, 0, 1, 0.9, 2, 1e-3, -1, 1e300, INFINITY, NAN };
    api_args a;
    for (int i = 0; i < API_COUNT(a.t); i++)
        a.t[i] = T;
    for (int i = 0; i < API_COUNT(a.n); i++)
        a.n[i] = API_CHOOSE(sizes, byte());
    for (int i = 0; i < API_COUNT(a.x); i++)
        a.x[i] = API_CHOOSE(numbers, byte());
    uint8_t bits = byte();
    for (int i = 0; i < API_COUNT(a.on); i++)
        a.on[i] = bits >> i & 1;
    for (int i = 0; i < API_COUNT(a.which); i++)
        a.which[i] = byte();
    return a;
}

void api_answer(bool there)
{
    if (!m.failing)
        require_answer(there);
}

void api_result(br_tensor *t)
{
    require(!t || m.anomalies || m.failing || !br_failed());
    api_answer(t != NULL);
    keep(&m.tensors[(m.end - m.p) % TENSORS], t);
}

/* Runs action i of all parts. */
static void run_action(int i)
{
    const api_part *const *part = parts;
    for (; i >= (*part)->n; part++)
        i -= (*part)->n;
    br_scope *scope = br_scope_current();
    bool grad_enabled = br_grad_enabled();
    api_args a = arguments();
    (*part)->actions[i](&a);
    require(br_scope_current() == scope && br_grad_enabled() == grad_enabled);
    require(!br_failed() || strlen(br_error_message()) > 0);
}

/* ---- Running --------------------------------------------------------------------------------- */

static void run_instruction(int i)
{
    if (instructions[i].act) {
        instructions[i].act();
        return;
    }
    br_tensor *t = instructions[i].run();
    require(!t || m.anomalies || m.failing || !br_failed());
    if (!t && instructions[i].run != run_grad_of && instructions[i].run != run_grad)
        api_answer(false);
    br_clear_error();
    keep(slot(), t);
}

static void run_one(void)
{
    int n = API_COUNT(instructions), total = n;
    for (int k = 0; k < API_COUNT(parts); k++)
        total += parts[k]->n;
    int i = byte() % total;
    m.failing = m.fail_next;
    m.fail_next = false;
    if (m.failing)
        br_raise(BR_ERROR_STATE, "an error of the program");
    if (i < n)
        run_instruction(i);
    else
        run_action(i - n);
    br_clear_error();
}

/* Reads every element, so that the sanitizers check the memory. */
static void read_tensor(const br_tensor *t)
{
    static char bytes[MAX_ELEMENTS * sizeof(double)];
    if (t && br_numel(t) <= MAX_ELEMENTS)
        require(br_copy_out(t, bytes, (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t))));
}

static void free_tensors(void)
{
    for (int i = 0; i < TENSORS; i++) {
        read_tensor(m.tensors[i]);
        br_release(m.tensors[i]);
    }
    keep(&hooked, NULL);
}

/* Frees everything, in an order that depends on the program. */
static void free_all(size_t order)
{
    enum { KINDS = API_COUNT(parts) + 1 };
    for (size_t i = 0; i < KINDS; i++) {
        size_t kind = (order + i) % KINDS;
        if (kind < API_COUNT(parts))
            parts[kind]->free_all();
        else
            free_tensors();
    }
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    memset(&m, 0, sizeof m);
    m.p = bytes;
    m.end = bytes + n;
    last_hook = 0;
    br_manual_seed(0);
    br_set_grad_enabled(true);
    for (int i = 0; i < MAX_STEPS && m.p < m.end; i++)
        run_one();
    br_set_detect_anomaly(BR_ANOMALY_OFF);
    free_all(n);
    br_thread_cleanup();
    require(!br_failed());
    require(br_live_tensors() == 0 && br_live_bytes() == 0);
}

FUZZ_TARGET(api)
