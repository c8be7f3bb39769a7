/* tests/cli/test_train_tokenizer.c - `brasa train-tokenizer`: what it writes, and its errors. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>

TestSuite(cli_train_tokenizer, .init = program_begin, .fini = program_end);

#define LEARN "train-tokenizer --data $OUT/text --out $OUT/t "

Test(cli_train_tokenizer, writes_a_folder)
{
    program_shell("printf 'the cat, the hat\\nthe cat, the bat\\n' >$OUT/text");
    program_check(LEARN, 0, "263 tokens; the text has 16 of them, 2.12 bytes each\nWrote ");
    program_check("tokenize --model $OUT/t 'the cat<|endoftext|>'", 0, "<|endoftext|>");
    program_shell("grep -q '\"eos_token\": \"<|endoftext|>\"' $OUT/t/tokenizer_config.json");
    program_check(LEARN "--special '<s>' --special '</s>' --overwrite --vocab-size 260 "
                        "--min-frequency 3",
                  0, "260 tokens; ");
    program_shell("grep -q '\"eos_token\": \"<s>\"' $OUT/t/tokenizer_config.json && "
                  "grep -q '\"</s>\": 1,' $OUT/t/tokenizer.json");
}

Test(cli_train_tokenizer, refused)
{
    program_shell("printf 'a' >$OUT/text && printf 'a\\377' >$OUT/bytes");
    program_check("train-tokenizer --out $OUT/t", 2, "--data is required");
    program_check("train-tokenizer --data $OUT/text", 2, "--out is required");
    program_check(LEARN "more", 2, "unexpected argument; --data names the text");
    program_check("train-tokenizer --data $OUT/none --out $OUT/t", 1, "/none");
    program_check("train-tokenizer --data $OUT/bytes --out $OUT/t", 1,
                  "byte 1 of a text is not UTF-8");
    program_check(LEARN "--vocab-size 9", 2, "--vocab-size is '9', must be 256 .. 2147483647");
    program_check(LEARN "--vocab-size 256", 1, "vocab_size is 256, must be 257 ..");
    program_check(LEARN "--min-frequency -1", 2, "--min-frequency is '-1', must be at least 0");
    program_check(LEARN, 0, "257 tokens");
    program_check(LEARN, 2, "already contains a tokenizer: --overwrite replaces it");
}
