/* tests/io/test_io_memory.c - makes each allocation during reading and writing fail in turn: an
 * error is reported, nothing leaks, and no file is left. */
#include "tensor/tensor_internal.h"
#include "tests/io/files.h"
#include "tests/memory.h"

TestSuite(io_memory, .init = files_begin, .fini = files_end);

static const char header[] = "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"F32\",\"shape\":["
                             "2],\"data_offsets\":[0,8]},"
                             "\"odd\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]},"
                             "\"e\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[11,11]},"
                             "\"u\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[11,19]}}";

static bool read_all(bool copy)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file =
        br_safetensors_open(files_path("a.safetensors"), BR_OPTIONS(br_safetensors, .copy = copy));
    for (int64_t i = 0; i < br_safetensors_count(file); i++)
        br_safetensors_get(file, br_safetensors_name(file, i));
    br_safetensors_close(file);
    br_scope_end(scope);
    return !br_failed();
}

static bool read_mapped(void)
{
    return read_all(false);
}

static bool read_copied(void)
{
    return read_all(true);
}

static bool write_two(void)
{
    remove(files_path("b.safetensors")); /* of an earlier run that succeeded */
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2, 3), BR_F32);
    br_tensor *t = x ? br__view_of(x, BR_SHAPE(3, 2), (int64_t[]){ 1, 3 }, 0) : NULL;
    br_named_list list = { 2, (br_named_tensor[]){ { "x", x }, { "t", t } } };
    bool ok = br_safetensors_save(files_path("b.safetensors"), &list, 2,
                                  (br_metadata[]){ { "a", "b" }, { "c", "d" } });
    br_scope_end(scope);
    cr_assert_eq(files_count(), ok ? 2 : 1, "wrong number of files left");
    return ok;
}

/* Saves and loads a model and an optimizer after one step, and frees everything. */
static bool save_and_load(void)
{
    br_scope *scope = br_scope_begin();
    br_module *model = br_module_create(sizeof(br_module), "net");
    br_tensor *w = br_module_add_parameter(model, "w", br_ones(BR_SHAPE(2, 3), BR_F32));
    br_optim *optim = br_adam(model, NULL);
    br_set_grad(w, w ? br_ones_like(w) : NULL);
    br_optim_step(optim);
    br_checkpoint c = { .model = model, .optim = optim, .step = 3, .rng = true };
    bool saved = br_checkpoint_save(files_path("c.safetensors"), &c);
    bool ok = saved && br_checkpoint_load(files_path("c.safetensors"), &c);
    cr_assert_eq(files_count(), saved ? 1 : 0, "wrong number of files left");
    remove(files_path("c.safetensors"));
    br_optim_free(optim);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(io_memory, checkpoints)
{
    fail_in_turn(save_and_load, "checkpoint");
}

Test(io_memory, reading_and_writing)
{
    files_write_safetensors(files_path("a.safetensors"), header, sizeof header - 1, 19);
    fail_in_turn(read_mapped, "mapped");
    fail_in_turn(read_copied, "copied");
    fail_in_turn(write_two, "written");
}
