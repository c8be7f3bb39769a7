/* A model of one's own that gives PyTorch's numbers: the program compares its outputs, loss,
 * gradients and intermediate results with those that tests/check/record.py recorded in PyTorch
 * (docs/check.md). The argument is the recorded file. */
#include <brasa/brasa.h>

typedef struct classifier {
    br_module base;
    br_linear *fc1, *fc2; /* named as in PyTorch, so that the state_dict has the same keys */
} classifier;

static classifier *classifier_new(int64_t d_in, int64_t d_hidden, int64_t n_classes)
{
    classifier *self = br_module_new(classifier);
    self->fc1 = br_child(self, "fc1", br_linear_new(d_in, d_hidden, true));
    self->fc2 = br_child(self, "fc2", br_linear_new(d_hidden, n_classes, true));
    return self;
}

/* Gets inputs from the file and passes outputs to the comparison, by their names. */
static void forward(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *hidden = br_tanh(br_linear_forward(self->fc1, br_check_input(check, "x")));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

/* The same network with a mistake: ReLU instead of tanh. */
static void wrong_forward(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *hidden = br_relu(br_linear_forward(self->fc1, br_check_input(check, "x")));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/09_recorded_model.safetensors";
    classifier *model = classifier_new(5, 8, 3);
    br_check_result right = { 0 }, wrong = { 0 };
    br_check_file(path, model, forward, &right);
    br_check_file(path, model, wrong_forward, &wrong);
    if (!br_failed()) {
        printf("with tanh: %s\n", right.excess <= 1 ? "equal to PyTorch" : right.where);
        printf("with relu: the first tensor that differs is %s\n", wrong.first);
    }
    br_module_free(model);
    br_thread_cleanup();
    return br_report(stderr) || !(right.excess <= 1) || !(wrong.excess > 1);
}
