/* tests/cli/test_gguf_commands.c - the commands with a GGUF file as --model, run as a program. */
#include "tests/cli/program.h"
#include "tests/pretrained/gguf_writer.h"

#include <brasa/brasa.h>

TestSuite(cli_gguf, .init = program_begin, .fini = program_end);

enum { WORDS = 262, SIZE = 8, A = 259 };

static void write_tokenizer(gguf_writer *w)
{
    static char bytes[256][8];
    const char *tokens[WORDS] = { "<unk>", "<s>", "</s>" };
    int32_t types[WORDS] = { 2, 3, 3 };
    float scores[WORDS] = { 0 };
    for (int i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", (unsigned)i);
        tokens[3 + i] = bytes[i];
        types[3 + i] = 6;
    }
    tokens[A] = "a";
    tokens[A + 1] = "b";
    tokens[A + 2] = "ab";
    for (int i = A; i < WORDS; i++)
        types[i] = 1;
    w_string(w, "tokenizer.ggml.model", "llama");
    w_strings(w, "tokenizer.ggml.tokens", WORDS, tokens);
    w_numbers(w, "tokenizer.ggml.scores", W_FLOAT32, WORDS, scores);
    w_numbers(w, "tokenizer.ggml.token_type", W_INT32, WORDS, types);
    w_bool(w, "tokenizer.ggml.add_space_prefix", false);
    w_u32(w, "tokenizer.ggml.eos_token_id", 2);
}

static void add(gguf_writer *w, const char *name, int64_t rows, int64_t columns, double value)
{
    br_scope *scope = br_scope_begin();
    w_tensor(w, name,
             rows > 0 ? br_full(BR_SHAPE(rows, columns), value, BR_F32)
                      : br_full(BR_SHAPE(columns), value, BR_F32));
    br_scope_end(scope);
}

/* Writes a Qwen2 of one layer whose likeliest token is always `best`. */
static void write_model(gguf_writer w, int best)
{
    w_string(&w, "general.architecture", "qwen2");
    w_u32(&w, "qwen2.context_length", 32);
    w_u32(&w, "qwen2.embedding_length", SIZE);
    w_u32(&w, "qwen2.block_count", 1);
    w_u32(&w, "qwen2.feed_forward_length", SIZE);
    w_u32(&w, "qwen2.attention.head_count", 2);
    w_u32(&w, "qwen2.attention.head_count_kv", 2);
    w_f32(&w, "qwen2.attention.layer_norm_rms_epsilon", 1e-5F);
    write_tokenizer(&w);
    add(&w, "token_embd.weight", WORDS, SIZE, 1);
    add(&w, "output_norm.weight", 0, SIZE, 1);
    br_scope *scope = br_scope_begin();
    br_tensor *head = br_zeros(BR_SHAPE(WORDS, SIZE), BR_F32);
    br_fill_(br_select(head, 0, best), 1);
    w_tensor(&w, "output.weight", head);
    br_scope_end(scope);
    add(&w, "blk.0.attn_norm.weight", 0, SIZE, 1);
    add(&w, "blk.0.ffn_norm.weight", 0, SIZE, 1);
    static const char *const names[] = { "attn_q",   "attn_k", "attn_v",  "attn_output",
                                         "ffn_gate", "ffn_up", "ffn_down" };
    for (int i = 0; i < 7; i++) {
        char name[60];
        snprintf(name, sizeof name, "blk.0.%s.weight", names[i]);
        add(&w, name, SIZE, SIZE, 0.25);
        snprintf(name, sizeof name, "blk.0.%s.bias", names[i]);
        if (i < 3)
            add(&w, name, 0, SIZE, 0.5);
    }
    char path[200];
    snprintf(path, sizeof path, "%s/m.gguf", program_directory);
    w_end(&w, path);
}

Test(cli_gguf, generate)
{
    write_model((gguf_writer){ 0 }, A);
    program_check("generate -m $OUT/m.gguf -n 3 b 2>&1", 0, "baaa\n");
    program_check("generate -m $OUT/m.gguf -n 3 --dtype bf16 b 2>&1", 0, "baaa\n");
    write_model((gguf_writer){ 0 }, 2); /* the end of a text */
    program_check("generate -m $OUT/m.gguf -n 3 b 2>&1", 0, "b\n");
    gguf_writer w = { 0 };
    w_u32(&w, "qwen2.rope.colour", 3);
    write_model(w, A);
    program_check("generate -m $OUT/m.gguf -n 3 b 2>&1", 0,
                  "m.gguf: results may differ from those of transformers, because these keys "
                  "are unknown: qwen2.rope.colour\n");
}

Test(cli_gguf, other_commands)
{
    write_model((gguf_writer){ 0 }, A);
    program_check("tokenize --model $OUT/m.gguf --ids 'ab b'", 0, "1 261 229 153 132 260\n");
    program_check("info $OUT/m.gguf", 0, "--model loads it as Qwen2ForCausalLM\n");
    program_check("info --json $OUT/m.gguf", 0, "\"class\":\"Qwen2ForCausalLM\"");
    program_check("attention -m $OUT/m.gguf -o $OUT/a.html 'ab b'", 0, "a.html");
}

/* Writes the same model, but with different embeddings of tokens. */
static void write_embeddings(gguf_writer w)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(0);
    w_tensor(&w, "token_embd.weight", br_randn(BR_SHAPE(WORDS, SIZE), BR_F32));
    br_scope_end(scope);
    w.without = "token_embd.weight";
    write_model(w, A);
}

/* llama.cpp's numbers of poolings. An option replaces the file's. */
Test(cli_gguf, embeddings)
{
    static const char *const modes[] = { NULL, "mean", "cls", "lasttoken" };
    char expected[4][512], got[512], command[128];
    write_embeddings((gguf_writer){ 0 });
    for (int i = 1; i <= 3; i++) {
        snprintf(command, sizeof command, "embed -m $OUT/m.gguf --json -p %s 'ab b' a", modes[i]);
        cr_assert_eq(program_run(command, expected[i], sizeof expected[i]), 0, "%s", expected[i]);
        cr_assert(i == 1 || strcmp(expected[i], expected[i - 1]) != 0, "%s", expected[i]);
    }
    for (unsigned i = 0; i <= 4; i++) {
        gguf_writer w = { 0 };
        w_u32(&w, "qwen2.pooling_type", i);
        write_embeddings(w);
        int status = program_run("embed -m $OUT/m.gguf --json 'ab b' a 2>&1", got, sizeof got);
        if (i == 0 || i == 4)
            cr_assert(status == 1 && strstr(got, i == 0 ? "is 0, must be" : "is 4, must be"), "%s",
                      got);
        else
            cr_assert(status == 0 && strcmp(got, expected[i]) == 0, "%s", got);
    }
}

Test(cli_gguf, refusals)
{
    write_model((gguf_writer){ .without = "qwen2.block_count" }, A);
    program_check("info $OUT/m.gguf", 0, "--model cannot load it: auto_config: ");
    program_check("info --json $OUT/m.gguf", 0, "metadata \\\"qwen2.block_count\\\" is missing");
    program_check("generate -m $OUT/m.gguf b 2>&1", 1,
                  "metadata \"qwen2.block_count\" is missing, must be the value of "
                  "num_hidden_layers");
    write_model((gguf_writer){ 0 }, A);
    program_check("embed -m $OUT/m.gguf b 2>&1", 1,
                  "metadata \"qwen2.pooling_type\" is missing, must be 1 (mean), 2 (cls) or 3 "
                  "(lasttoken); the option pooling (brasa embed: --pooling MODE) overrides it");
    program_check("fill-mask -m $OUT/m.gguf b 2>&1", 1,
                  "'brasa fill-mask' does not support models of type qwen2");
    program_check(
        "classify -m $OUT/m.gguf b 2>&1", 1,
        "the files lack weights of a Qwen2ForSequenceClassification, which would have random "
        "values: score.weight");
    program_check("generate -m $OUT/none.gguf b 2>&1", 1, "or a GGUF file");
}
