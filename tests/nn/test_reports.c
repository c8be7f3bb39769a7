/* tests/nn/test_reports.c - br_summary() and br_report_unused(). */
#include "tests/support.h"

#include <brasa/nn.h>

TestSuite(reports, .init = check_begin, .fini = check_end);

typedef struct {
    br_module base;
    br_embedding *embedding;
    br_linear *decoder;
    br_tensor *tied;
} tied_model;

static tied_model *tied_new(void)
{
    tied_model *self = br_module_new(tied_model);
    self->embedding = br_child(self, "embedding", br_embedding_new(500, 3, -1));
    self->decoder = br_child(self, "decoder", br_linear_new(3, 5, true));
    br_scope *scope = br_scope_begin();
    br_buffer(self, "mask", br_ones(BR_SHAPE(2, 2), BR_BOOL));
    br_scope_end(scope);
    br_module_add_parameter(br_base(self->decoder), "embedded", self->embedding->weight);
    return self;
}

Test(reports, summary_shows_the_tree)
{
    tied_model *m = tied_new();
    br_freeze(br_base(m), "decoder.weight");
    char *text = br_summary(br_base(m));
    check_ok();
    cr_assert_str_eq(text,
                     "tied_model                                                 1,520\n"
                     "  mask  bool [2, 2] (buffer)\n"
                     "  embedding: Embedding                                     1,500\n"
                     "    weight  f32 [500, 3]                                   1,500\n"
                     "  decoder: Linear                                          1,520\n"
                     "    weight  f32 [5, 3] (frozen)                               15\n"
                     "    bias  f32 [5]                                              5\n"
                     "    embedded  f32 [500, 3] = embedding.weight\n"
                     "Parameters: 1,520, of which 1,505 trainable; 0.0 MiB\n",
                     "%s", text);
    br_free(text);
    check_fails(br_summary(NULL), "module is NULL");
    br_embedding *large = br_embedding_new(1 << 15, 8, -1);
    br_module_to(br_base(large), BR_F64);
    text = br_summary(br_base(large));
    cr_assert(strstr(text, "Parameters: 262,144, of which 262,144 trainable; 2.0 MiB"), "%s", text);
    br_free(text);
    br_module_free(large);
    br_module_free(m);
}

Test(reports, unused_parameters_and_foreign_leaves)
{
    br_scope *scope = br_scope_begin();
    tied_model *m = tied_new();
    br_linear *fresh = br_linear_new(5, 2, false); /* as if created during forward */
    br_tensor *x = br_ones(BR_SHAPE(4, 3), BR_F32);
    br_tensor *y = br_f_linear(x, m->decoder->weight, NULL);
    br_tensor *loss = br_sum(br_linear_forward(fresh, br_mul(y, y)));
    br_unused_report report;
    cr_assert(br_backward(loss));
    cr_assert(br_report_unused(br_base(m), loss, &report));
    cr_assert_eq(report.without_grad, 2);
    cr_assert_eq(report.foreign_leaves, 1);
    cr_assert_str_eq(
        report.text,
        "parameter embedding.weight [500, 3] has no gradient\nparameter decoder.bias [5] has no "
        "gradient\nleaf [2, 5] requires grad, but is not a parameter of the module\n");
    br_unused_report_clear(&report);
    br_freeze(br_base(m), "embedding.*");
    br_freeze(br_base(m), "decoder.bias");
    cr_assert(br_report_unused(br_base(m), y, &report));
    cr_assert_str_eq(report.text, "");
    br_unused_report_clear(&report);
    check_fails(br_report_unused(br_base(m), NULL, &report), "output is NULL");
    check_fails(br_report_unused(br_base(m), y, NULL), "report is NULL");
    br_module_free(fresh);
    br_module_free(m);
    br_scope_end(scope);
}
