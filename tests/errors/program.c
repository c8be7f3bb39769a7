/* program.c CASE - errors that the program does not query, which must be reported at its end, and
 * error callbacks. tests/tensor/test_report.c and tests/setup/test_break run it. */
#include <brasa/brasa.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words);

static void fail(void)
{
    br_mm(br_ones(BR_SHAPE(2, 3), BR_F32), br_ones(BR_SHAPE(2, 3), BR_F32));
}

static void *fail_in_thread(void *context)
{
    (void)context;
    br_raise(BR_ERROR_IO, "of the thread");
    return NULL;
}

/* Raises an error. With a context, another thread raises a second one and ends before this one. */
static void *fail_before_another(void *another)
{
    pthread_t thread;
    br_raise(BR_ERROR_IO, "of the first thread");
    if (another && pthread_create(&thread, NULL, fail_in_thread, NULL) == 0)
        pthread_join(thread, NULL);
    return NULL;
}

static void fail_in_two_threads(bool at_once)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fail_before_another, at_once ? &thread : NULL) == 0)
        pthread_join(thread, NULL);
    if (!at_once && pthread_create(&thread, NULL, fail_in_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

/* Returns a tensor whose scope has ended. */
static __attribute__((noinline)) br_tensor *ended_tensor(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_ones(BR_SHAPE(2), BR_F32);
    br_scope_end(scope);
    return t;
}

static void print(br_error code, const char *message, void *context)
{
    printf("%s %d %s\n", (const char *)context, (int)code, message);
    br_raise(BR_WARNING, "not passed on by a callback");
    if (code == BR_ERROR_SHAPE) { /* a callback that clears the error may cause a new one */
        br_clear_error();
        br_zeros(BR_SHAPE(-1), BR_F32);
    }
}

/* Returns whether the address is in the code of an exported function. */
static bool is_in(const void *address, const char *function)
{
    Dl_info info;
    const ElfW(Sym) * symbol;
    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !info.dli_sname || !symbol)
        return false;
    return strcmp(info.dli_sname, function) == 0 &&
           (const char *)address - (const char *)info.dli_saddr <= (ptrdiff_t)symbol->st_size;
}

static void print_stack(br_error code, const char *message, void *context)
{
    void *frames[64];
    int n = backtrace(frames, 64);
    (void)message;
    (void)context;
    printf("%d", (int)code);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            if (is_in(frames[i], (const char *[]){ "br_raise", "main" }[k]))
                printf(" %s", (const char *[]){ "br_raise", "main" }[k]);
    printf("\n");
    br_clear_error();
}

static void fail_everywhere(void)
{
    br_set_error_callback(print_stack, NULL);
    fail();
    br_zeros(BR_SHAPE(-1), BR_F32);
    br_dot(br_ones(BR_SHAPE(2), BR_F32), br_ones(BR_SHAPE(2), BR_F64));
    br_reshape(NULL, BR_SHAPE(2));
    br_safetensors_open("/nowhere/model.safetensors", NULL);
    br_safetensors_open("/proc/self/exe", NULL);
    br_linear *linear = br_linear_new(2, 3, true);
    br_forward(linear, br_ones(BR_SHAPE(4), BR_F32));
    br_module_free(linear);
    br_raise_text(BR_ERROR_STATE, "of the program");
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    pthread_t thread;
    if (strcmp(what, "unasked") == 0)
        fail();
    if (strcmp(what, "model") == 0) { /* the checks of models do not handle the error */
        fail();
        br_anatomy_config c = br_anatomy_notebook_config();
        br_module_free(br_anatomy_classifier_new(&c));
    }
    if (strcmp(what, "failed") == 0 && (fail(), br_failed()))
        printf("seen\n");
    if (strcmp(what, "code") == 0 && (fail(), br_error_code() == BR_ERROR_SHAPE))
        printf("seen\n");
    if (strcmp(what, "cleared") == 0) {
        fail();
        br_clear_error();
    }
    if (strcmp(what, "early") == 0 && !br_failed() && br_error_code() == BR_OK)
        fail();
    if (strcmp(what, "off") == 0) {
        br_set_exit_report(false);
        fail();
    }
    if (strcmp(what, "cleanup") == 0) {
        fail();
        br_thread_cleanup();
    }
    if (strcmp(what, "thread") == 0 && pthread_create(&thread, NULL, fail_in_thread, NULL) == 0 &&
        !pthread_join(thread, NULL))
        fail();
    if (strcmp(what, "two threads") == 0)
        fail_in_two_threads(false);
    if (strcmp(what, "two threads at once") == 0)
        fail_in_two_threads(true);
    if (strcmp(what, "callback") == 0) {
        br_set_error_callback(print, "got");
        fail();
        br_raise(BR_ERROR_IO, "dropped, one is pending");
        br_clear_error();
        br_set_error_callback(NULL, NULL);
        fail();
        br_clear_error();
    }
    if (strcmp(what, "warning") == 0) {
        br_raise(BR_WARNING, "nobody hears %d", 1);
        br_set_error_callback(print, "got");
        br_raise(BR_WARNING, "somebody hears %d", 2);
        printf("%d\n", br_failed());
    }
    if (strcmp(what, "fork") == 0) {
        fail();
        if (fork() == 0)
            return EXIT_SUCCESS;
        wait(NULL);
    }
    if (strcmp(what, "ended") == 0)
        br_neg(ended_tensor());
    if (strcmp(what, "stacks") == 0)
        fail_everywhere();
    return EXIT_SUCCESS;
}
