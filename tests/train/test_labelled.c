/* Labelled examples: CSV and lines of JSON, valid and invalid, and the order of labels. */
#include "tests/support.h"
#include "train/csv.h"
#include "train/labelled.h"

#include <math.h>
#include <string.h>

TestSuite(labelled, .init = check_begin, .fini = check_end);

static labelled read(labelled_problem problem, const char *data)
{
    labelled l;
    cr_assert(labelled_read(&l, problem, data, strlen(data)), "%s", br_error_message());
    return l;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Fields of a record are joined by "|". */
static void check_records(char separator, const char *text, int n, const char *const *records)
{
    csv c;
    cr_assert(csv_begin(&c, separator, text, strlen(text)));
    for (int i = 0; i < n; i++) {
        char joined[200] = "";
        cr_assert(csv_next(&c), "%s: record %d: %s", text, i, br_error_message());
        for (int64_t k = 0; k < c.n; k++)
            snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%.*s",
                     k ? "|" : "", (int)c.fields[k].length, c.fields[k].data);
        cr_expect_str_eq(joined, records[i]);
    }
    cr_expect(!csv_next(&c) && !br_failed());
    csv_end(&c);
}

#define RECORDS(...)                                                                \
    (int)(sizeof(const char *[]){ __VA_ARGS__ } / sizeof(char *)), (const char *[]) \
    {                                                                               \
        __VA_ARGS__                                                                 \
    }

Test(labelled, records)
{
    check_records(',', "a,b\n1,2\n", RECORDS("a|b", "1|2"));
    check_records(',', "a,b\r\n\r\n1,2", RECORDS("a|b", "1|2"));
    check_records(',', "\n\"a,\"\"b\"\"\",\"c\nd\"\n,\n", RECORDS("a,\"b\"|c\nd", "|"));
    check_records('\t', "a,b\tc\n\"\"\td\r\n", RECORDS("a,b|c", "|d"));
    check_records(',', "a\rb,c \"d\"", RECORDS("a\rb|c \"d\""));
    check_records(',', "", 0, NULL);
}

Test(labelled, lines_of_records)
{
    csv c;
    static const char text[] = "a\n\"b\nc\"\n\nd\n";
    cr_assert(csv_begin(&c, ',', text, strlen(text)));
    static const int64_t lines[] = { 1, 2, 5 };
    for (int i = 0; i < 3; i++)
        cr_assert(csv_next(&c) && c.line == lines[i]);
    csv_end(&c);
}

Test(labelled, columns)
{
    labelled l = read(LABELLED_AUTO, "id,label,text\n7,pos,\"good, \"\"very\"\"\"\n8,neg,bad\n");
    cr_assert_eq(l.count, 2);
    cr_assert_eq(l.problem, LABELLED_SINGLE);
    cr_assert_not(l.has_pairs);
    cr_assert_str_eq(l.items[0].text, "good, \"very\"");
    cr_assert_str_eq(l.items[1].labels[0], "neg");
    labelled_free(&l);
    l = read(LABELLED_AUTO, "\xef\xbb\xbftext\ttext_pair\tlabels\na,b\tc\t1\n");
    cr_assert(l.has_pairs);
    cr_assert_str_eq(l.items[0].text, "a,b");
    cr_assert_str_eq(l.items[0].pair, "c");
    cr_assert_str_eq(l.items[0].labels[0], "1");
    labelled_free(&l);
    l = read(LABELLED_REGRESSION, "text,label\na,1\nb,-2.5e-1\n");
    cr_assert_eq(l.problem, LABELLED_REGRESSION);
    cr_assert(l.items[0].number == 1 && l.items[1].number == -0.25);
    labelled_free(&l);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

Test(labelled, lines_of_json)
{
    labelled l = read(LABELLED_AUTO, "{\"text\": \"a\", \"label\": 10}\n\n"
                                     "{\"label\": \"2\", \"text\": \"b\\n\", \"id\": 3}\n");
    cr_assert(l.count == 2 && l.problem == LABELLED_SINGLE);
    cr_assert_str_eq(l.items[0].labels[0], "10");
    cr_assert_str_eq(l.items[1].text, "b\n");
    labelled_free(&l);
    l = read(LABELLED_AUTO, "{\"text\": \"a\", \"labels\": [\"x\", 1]}\n"
                            "{\"text\": \"b\", \"label\": []}\n");
    cr_assert(l.problem == LABELLED_MULTI && l.items[0].n_labels == 2 && l.items[1].n_labels == 0);
    labelled_free(&l);
    l = read(LABELLED_AUTO, "{\"text\": \"a\", \"text_pair\": \"b\", \"label\": 0.5}\n");
    cr_assert(l.problem == LABELLED_REGRESSION && l.has_pairs && l.items[0].number == 0.5);
    labelled_free(&l);
    l = read(LABELLED_REGRESSION, "{\"text\": \"a\", \"label\": 3}\n");
    cr_assert(l.problem == LABELLED_REGRESSION && l.items[0].number == 3);
    labelled_free(&l);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void check_names(const char *data, int n, const char *const *want)
{
    labelled l = read(LABELLED_AUTO, data);
    br_vocab *names = labelled_names(&l);
    cr_assert_eq(br_vocab_size(names), n);
    for (int i = 0; i < n; i++)
        cr_expect_str_eq(br_vocab_word(names, i), want[i]);
    cr_assert(labelled_number(&l, names));
    for (int64_t i = 0; i < l.count; i++)
        cr_expect_str_eq(br_vocab_word(names, l.items[i].ids[0]), l.items[i].labels[0]);
    br_vocab_free(names);
    labelled_free(&l);
}

Test(labelled, labels_are_sorted)
{
    check_names("text,label\na,b\nb,c\nc,a\nd,b\n", RECORDS("a", "b", "c"));
    check_names("text,label\na,10\nb,9\nc,-1\n", RECORDS("-1", "9", "10"));
    check_names("text,label\na,10\nb,9\nc,x\n", RECORDS("10", "9", "x"));
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(labelled, invalid_data)
{
    static const struct {
        labelled_problem problem;
        const char *data, *message;
    } cases[] = {
        { LABELLED_AUTO, "", "must name the columns of a CSV file, with \"text\" and \"label\"" },
        { LABELLED_AUTO, "text,label\n", "the data has no examples" },
        { LABELLED_AUTO, "text,class\na,b\n", "it has no \"label\"" },
        { LABELLED_AUTO, "label\na\n", "it has no \"text\"" },
        { LABELLED_AUTO, "text,label\na,b\nc\n", "line 3 of the data has 1 fields, must have 2" },
        { LABELLED_AUTO, "text,label\n\na,\n", "line 3 of the data has an empty label" },
        { LABELLED_AUTO, "text,label\n\"a,b\n",
          "the record in line 2 of the data has a field that "
          "begins with a quote, but no quote ends it" },
        { LABELLED_AUTO, "text,label\n\"a\"b,c\n", "but text follows the quote that ends it" },
        { LABELLED_AUTO, "text,label\n\"a\"\"", "no quote ends it" },
        { LABELLED_REGRESSION, "text,label\na,b\n", "the label \"b\", must be a number" },
        { LABELLED_REGRESSION, "text,label\na,inf\n", "the label \"inf\", must be a number" },
        { LABELLED_AUTO, "{\"text\": \"a\"}", "line 1 of the data has no \"label\"" },
        { LABELLED_AUTO, "{\"label\": \"a\"}", "line 1 of the data has no \"text\"" },
        { LABELLED_AUTO, "{\"text\": 1, \"label\": 1}", "has a \"text\" that is no string" },
        { LABELLED_AUTO, "{\"text\": \"a\", \"text_pair\": null, \"label\": 1}",
          "has a \"text_pair\" that is no string" },
        { LABELLED_AUTO, "{\"text\": \"a\", \"label\": null}", "neither a name nor a number" },
        { LABELLED_AUTO, "{\"text\": \"a\", \"label\": \"\"}", "neither a name nor a number" },
        { LABELLED_AUTO, "{\"text\": \"a\", \"label\": [[1]]}", "neither a name nor a number" },
        { LABELLED_AUTO, "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\", \"label\": [1]}",
          "line 2 of the data has a list of labels, must have one label, as the first line" },
        { LABELLED_MULTI, "{\"text\": \"a\", \"label\": 1}",
          "line 1 of the data has one label, must have a list of labels for this problem_type" },
        { LABELLED_AUTO,
          "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\", \"text_pair\": \"b\", "
          "\"label\": 1}",
          "line 2 of the data has a second text, unlike the first line" },
        { LABELLED_AUTO, "{\"text\": \"a\", \"label\": 1}\nx", "line 2 of the data is not JSON" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        labelled l;
        cr_expect(!labelled_read(&l, cases[i].problem, cases[i].data, strlen(cases[i].data)), "%s",
                  cases[i].data);
        cr_expect(strstr(br_error_message(), cases[i].message), "no \"%s\" in \"%s\"",
                  cases[i].message, br_error_message());
        br_clear_error();
        labelled_free(&l);
    }
}
