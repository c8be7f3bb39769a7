/* cli/finetune.c - `brasa finetune`: its options and its help. train.c runs it. */
#include "cli/cli.h"
#include "cli/train_command.h"

static const char help[] =
    "Usage: brasa finetune --model DIR --data FILE [OPTION]...\n"
    "       brasa finetune --resume --data FILE [OPTION]...\n"
    "\n"
    "Trains a pretrained model on your texts, and shows what it makes of some of them.\n"
    "\n"
    "  -m, --model DIR      folder of the model, as for 'brasa generate'\n"
    "      --objective O    text (default): a language model generates texts or answers;\n"
    "                       classify: an encoder gives labels to texts, as for\n"
    "                       'brasa classify'; contrastive: a sentence encoder gives\n"
    "                       similar embeddings to texts that belong together, as for\n"
    "                       'brasa embed'; preference: a language model prefers some\n"
    "                       answers to others (DPO)\n"
    "      --data FILE      for text: a text, or lines of JSON: {\"text\": ...}, {\"prompt\":\n"
    "                       ..., \"completion\": ...}, or {\"messages\": [{\"role\": ...,\n"
    "                       \"content\": ...}, ...]} for the model's chat template. The loss\n"
    "                       counts texts, completions, and the assistant's answers.\n"
    "                       For the others: CSV, or lines of JSON, with the columns\n"
    "                       text and label (and text_pair); anchor and positive (and\n"
    "                       negative); prompt, chosen and rejected\n"
    "      --preset NAME    lora: train a LoRA adapter beside the frozen weights (default\n"
    "                       for text and preference); full: train all parameters (default\n"
    "                       for classify and contrastive)\n"
    "      --steps N        total number of steps (default: 3 passes over the data)\n"
    "      --seed S         seed of the order of the examples, and of dropout\n"
    "      --threads N      number of threads; it does not change the results\n"
    "      --matmul-precision P\n"
    "                       precision of f32 matrix products: highest (default), high\n"
    "                       or medium, which rounds their operands to bf16\n"
    "      --amp P          mixed precision of the forward pass: off (default) or bf16,\n"
    "                       in which products, convolutions and attention compute\n"
    "      --dtype D        dtype of the parameters: f32 (default), f64, bf16 or f16, or\n"
    "                       quantized: as a GGUF file has them, with less memory; for\n"
    "                       bf16 and f16 the optimizer keeps copies in f32, or rounds at\n"
    "                       random with --set half_update=stochastic\n"
    "      --lr X           learning rate, which falls to 0\n"
    "      --set KEY=VALUE  change a setting; may be repeated\n"
    "      --out DIR        directory of the results (default: out/finetune): the folder\n"
    "                       adapter, model, or both (--preset, --set merge=true);\n"
    "                       checkpoint.safetensors; log.jsonl, one line per step\n"
    "                       with the loss before the update and the step's time in\n"
    "                       seconds; loss.svg and metrics.svg; event files for\n"
    "                       TensorBoard\n"
    "      --resume         continue the run in DIR; the results are the same as\n"
    "                       without the interruption. Settings are read from the\n"
    "                       checkpoint. Those given on the command line must match it,\n"
    "                       except settings that may change, such as steps\n"
    "      --overwrite      replace the run in DIR\n"
    "      --profile[=N]    profile N steps (default: 3) after some warm-up steps:\n"
    "                       print tables of time, FLOPs and bytes by operation and by\n"
    "                       module, and write trace.json for chrome://tracing\n"
    "      --histograms N   every N steps, write the distributions of the parameters and\n"
    "                       of their gradients for TensorBoard\n"
    "  -h, --help           show this help and the settings\n"
    "\n"
    "Ctrl-C stops the run after the current step and writes a checkpoint to resume\n"
    "from. The exit status is then 130.\n";

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "objective", required_argument, NULL, OBJECTIVE },
    TRAIN_OPTIONS,
};

int cli_finetune(int argc, char **argv)
{
    static const train_command command = { .objectives = train_objectives,
                                           .help = help,
                                           .letters = "m:h",
                                           .options = options,
                                           .needs = "model" };
    return train_command_run(&command, argc, argv);
}
