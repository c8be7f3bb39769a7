/* cli/answer.c - `brasa answer --model DIR --question Q TEXT...`: answers to a question in texts.
 */
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "cli/texts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa answer --model DIR --question Q [OPTION]... TEXT...\n"
    "       brasa answer --model DIR --question Q [OPTION]... --file FILE\n"
    "\n"
    "Prints the part of each text that answers the question, with its probability.\n"
    "\n"
    "  -m, --model DIR       folder of a model that answers questions, as downloaded from the\n"
    "                        Hugging Face Hub: config.json, model.safetensors, and the\n"
    "                        tokenizer's files\n"
    "  -q, --question Q      the question\n"
    "  -f, --file FILE       read the texts from FILE, one per line; a line may end with CR LF,\n"
    "                        and FILE may begin with a byte-order mark\n"
    "  -k, --top-k N         print the N best answers (default: 1)\n"
    "      --impossible      allow no answer, which is printed as an empty one\n"
    "      --max-answer N    answers have at most N tokens (default: 15)\n"
    "  -l, --max-length N    read longer texts in parts of N tokens, including the question\n"
    "                        (default: 384, or what the model takes)\n"
    "      --stride N        the parts share N tokens (default: half of a part, at most 128)\n"
    "      --split-words     answers may begin and end within words\n"
    "      --cased           do not lower-case the text (WordPiece only)\n" CLI_MODEL_HELP
    "  -j, --json            print one JSON object per line, with text and answers; start and\n"
    "                        end count code points\n"
    "  -h, --help            show this help\n";

typedef struct request {
    const char *model, *file, *question;
    bool json;
    br_pipeline_options load;
    br_answer_options answer;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static br_text text_of(const br_text *text, const br_answer *a)
{
    return (br_text){ text->data + a->bytes.begin, a->bytes.end - a->bytes.begin };
}

static void show_json(const br_text *text, int64_t i, const br_answers *all)
{
    printf("{\"text\":");
    bool ok = cli_texts_print_json(text, i);
    printf(",\"answers\":[");
    for (int64_t k = 0; ok && k < all->count; k++) {
        const br_answer *a = &all->items[k];
        br_text part = text_of(text, a);
        printf("%s{\"score\":%.9g,\"answer\":", k ? "," : "", a->score);
        ok = cli_texts_print_json(&part, i);
        printf(",\"start\":%" PRId64 ",\"end\":%" PRId64 "}", a->chars.begin, a->chars.end);
    }
    printf("]}\n");
}

static void show_text(const br_text *text, int64_t i, const br_answers *all)
{
    printf("%s%.*s\n", i ? "\n" : "", (int)text->length, text->data);
    for (int64_t k = 0; k < all->count; k++) {
        br_text part = text_of(text, &all->items[k]);
        printf("%6.4f  %.*s\n", all->items[k].score, (int)part.length, part.data);
    }
}

/* ---- Answering ------------------------------------------------------------------------------- */

static void answer(request *r, int n, char **arguments)
{
    br_scope *scope = br_no_grad_begin();
    cli_autocast();
    cli_texts t;
    br_text question = { r->question, -1 };
    br_pipeline *p = cli_texts_read(&t, r->file, n, arguments, false)
                         ? pretrained_pipeline(r->model, BR_TASK_QUESTION_ANSWERING, &r->load)
                         : NULL;
    for (int64_t i = 0; p && i < t.n && !br_failed(); i++) {
        br_answers *all = br_pipeline_answer(p, &question, &t.items[i], &r->answer);
        if (all)
            (r->json ? show_json : show_text)(&t.items[i], i, all);
        br_answers_free(all);
    }
    br_pipeline_free(p);
    cli_texts_free(&t);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "question", required_argument, NULL, 'q' },
    { "file", required_argument, NULL, 'f' },
    { "top-k", required_argument, NULL, 'k' },
    { "impossible", no_argument, NULL, 'i' },
    { "max-answer", required_argument, NULL, 'a' },
    { "max-length", required_argument, NULL, 'l' },
    { "stride", required_argument, NULL, 's' },
    { "split-words", no_argument, NULL, 'w' },
    { "cased", no_argument, NULL, 'c' },
    { "json", no_argument, NULL, 'j' },
    CLI_MODEL_OPTIONS,
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* Handles one option; returns 0 or the exit status. */
static int parse_option(void *of, int c)
{
    request *r = of;
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'q':
        r->question = optarg;
        return 0;
    case 'f':
        r->file = optarg;
        return 0;
    case 'k':
        return cli_at_least("--top-k", 1, &r->answer.top_k);
    case 'i':
        r->answer.handle_impossible_answer = true;
        return 0;
    case 'a':
        return cli_at_least("--max-answer", 1, &r->answer.max_answer_len);
    case 'l':
        return cli_at_least("--max-length", 1, &r->answer.max_seq_len);
    case 's':
        return cli_at_least("--stride", 0, &r->answer.doc_stride);
    case 'w':
        r->answer.align_to_words = false;
        return 0;
    case 'c':
        r->load.do_lower_case = BR_SETTING_OFF;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    default:
        return cli_bad_option("answer");
    }
}

int cli_answer(int argc, char **argv)
{
    request r = { .load = br_pipeline_defaults(), .answer = br_answer_defaults() };
    int status = cli_options(argc, argv, "m:q:f:k:l:jh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (!r.question)
        return cli_usage("answer", "--question is required");
    status = pretrained_check_arguments(r.model, r.file, argc - optind);
    if (status != CLI_CONTINUE)
        return status;
    answer(&r, argc - optind, argv + optind);
    return cli_report();
}
