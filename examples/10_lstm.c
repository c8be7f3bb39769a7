/* An LSTM memorizes a rhyme, character by character, and then generates it from its first
 * characters; each output becomes the next input. */
#include <brasa/brasa.h>
#include <math.h>
#include <string.h>

static const char rhyme[] = "twinkle, twinkle, little star, how i wonder what you are! "
                            "up above the world so high, like a diamond in the sky.";
enum { LETTERS = 128, WIDTH = 24, HIDDEN = 64, STEPS = 150, GIVEN = 8 };

typedef struct speaker {
    br_module base;
    br_embedding *letters;
    br_rnn *lstm;
    br_linear *next;
} speaker;

static speaker *speaker_new(void)
{
    speaker *self = br_module_new(speaker);
    self->letters = br_child(self, "letters", br_embedding_new(LETTERS, WIDTH, -1));
    self->lstm = br_child(self, "lstm", br_lstm_new(WIDTH, HIDDEN, NULL));
    self->next = br_child(self, "next", br_linear_new(HIDDEN, LETTERS, true));
    return self;
}

/* Returns scores [L, LETTERS] for the character after each one of text [L]. *h and *c are the state
 * before the text, NULL at the start; they are set to the state after it. */
static br_tensor *speaker_forward(speaker *self, br_tensor *text, br_tensor **h, br_tensor **c)
{
    br_enter(self);
    br_tensor *x = br_embedding_forward(self->letters, text);
    x = br_rnn_forward(self->lstm, x, *h, *c, h, c);
    br_scope_return(NULL, *h); /* the states, like the result, outlive this forward */
    br_scope_return(NULL, *c);
    return br_leave(self, br_linear_forward(self->next, x));
}

static br_tensor *letters_of(const char *text, size_t n)
{
    br_tensor *t = br_zeros(BR_SHAPE((int64_t)n), BR_I64);
    for (size_t i = 0; t && i < n; i++)
        br_data_i64(t)[i] = text[i] % LETTERS;
    return t;
}

static double learn(speaker *model)
{
    br_optim *adam = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.01));
    br_tensor *text = letters_of(rhyme, sizeof rhyme - 2);
    br_tensor *behind = letters_of(rhyme + 1, sizeof rhyme - 2);
    double last = INFINITY;
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *h = NULL, *c = NULL, *scores = speaker_forward(model, text, &h, &c);
        br_tensor *loss = br_cross_entropy(scores, behind, NULL);
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        last = br_item(loss);
        if (step % 30 == 0)
            printf("step %3d: loss %.4f\n", step, last);
        br_scope_end(scope);
    }
    br_optim_free(adam);
    return last;
}

/* Generates the rhyme from its first characters; returns how many characters are right. */
static int say(speaker *model)
{
    br_scope *scope = br_no_grad_begin();
    char said[sizeof rhyme] = "";
    memcpy(said, rhyme, GIVEN);
    br_tensor *h = NULL, *c = NULL, *text = letters_of(said, GIVEN);
    int right = GIVEN;
    for (size_t n = GIVEN; n + 1 < sizeof rhyme && !br_failed(); n++) {
        br_tensor *scores = br_select(speaker_forward(model, text, &h, &c), 0, -1);
        said[n] = (char)br_item(br_argmax(scores, 0, false));
        right += said[n] == rhyme[n];
        text = letters_of(said + n, 1);
    }
    printf("generated from \"%.*s\":\n%s\n", GIVEN, said, said);
    br_scope_end(scope);
    return right;
}

int main(void)
{
    br_manual_seed(1);
    br_scope *scope = br_scope_begin();
    speaker *model = speaker_new();
    learn(model);
    int right = say(model);
    printf("%d of %d characters are right\n", right, (int)sizeof rhyme - 1);
    br_module_free(model);
    br_scope_end(scope);
    br_thread_cleanup();
    return br_report(stderr) || right < (int)sizeof rhyme - 1;
}
