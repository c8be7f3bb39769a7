/* tests/notebooks/bert_text.h - the text, words and tokens that notebook 003 prints. */
#ifndef BR_TESTS_NOTEBOOKS_BERT_TEXT_H
#define BR_TESTS_NOTEBOOKS_BERT_TEXT_H

#include <stdint.h>

enum { N_SENTENCES = 11, N_WORDS = 66, LONGEST = 14 };

/* Printed by In [7]; the quotes and each "\n" are in the file. */
static const char text_printed[] = "'Olá, como vai? Eu sou a Ana.\\n'\n"
                                   "'Olá, Ana, meu nome é Carlos. Muito prazer.\\n'\n"
                                   "'Prazer em conhecer você também. Como você está hoje?\\n'\n"
                                   "'Ótimo. Meu time de futebol venceu a competição.\\n'\n"
                                   "'Uau Parabéns, Carlos!\\n'\n"
                                   "'Obrigado Ana.\\n'\n"
                                   "'Vamos comer uma pizza mais tarde para celebrar?\\n'\n"
                                   "'Claro. Você recomenda algum restaurante Ana?\\n'\n"
                                   "'Sim, abriu um restaurante novo e dizem que a pizza de banana "
                                   "é fenomenal.\\n'\n"
                                   "'Ok. Nos encontramos no restaurante às sete da noite, pode "
                                   "ser?\\n'\n"
                                   "'Pode sim. Nos vemos mais tarde então.'";

/* Printed by In [9]. */
static const char *const sentences[N_SENTENCES] = {
    "'olá como vai eu sou a ana\\n'",
    "'olá ana meu nome é carlos muito prazer\\n'",
    "'prazer em conhecer você também como você está hoje\\n'",
    "'ótimo meu time de futebol venceu a competição\\n'",
    "'uau parabéns carlos\\n'",
    "'obrigado ana\\n'",
    "'vamos comer uma pizza mais tarde para celebrar\\n'",
    "'claro você recomenda algum restaurante ana\\n'",
    "'sim abriu um restaurante novo e dizem que a pizza de banana é fenomenal\\n'",
    "'ok nos encontramos no restaurante às sete da noite pode ser\\n'",
    "'pode sim nos vemos mais tarde então'",
};

/* Printed by In [11], in the order of the notebook's run. */
static const char *const word_list[N_WORDS] = { "time",
                                                "mais",
                                                "vai",
                                                "'ok",
                                                "no",
                                                "'claro",
                                                "de",
                                                "'prazer",
                                                "'ótimo",
                                                "para",
                                                "que",
                                                "sete",
                                                "noite",
                                                "pode",
                                                "restaurante",
                                                "'pode",
                                                "ana\\n'",
                                                "futebol",
                                                "uma",
                                                "conhecer",
                                                "nos",
                                                "recomenda",
                                                "'sim",
                                                "sou",
                                                "eu",
                                                "vemos",
                                                "novo",
                                                "comer",
                                                "carlos\\n'",
                                                "sim",
                                                "competição\\n'",
                                                "fenomenal\\n'",
                                                "encontramos",
                                                "às",
                                                "'obrigado",
                                                "'vamos",
                                                "tarde",
                                                "da",
                                                "carlos",
                                                "'olá",
                                                "você",
                                                "abriu",
                                                "muito",
                                                "meu",
                                                "prazer\\n'",
                                                "ser\\n'",
                                                "em",
                                                "também",
                                                "está",
                                                "hoje\\n'",
                                                "banana",
                                                "'uau",
                                                "um",
                                                "algum",
                                                "e",
                                                "é",
                                                "nome",
                                                "venceu",
                                                "parabéns",
                                                "ana",
                                                "então'",
                                                "dizem",
                                                "pizza",
                                                "a",
                                                "como",
                                                "celebrar\\n'" };

/* Printed by In [21]; rows end with 0. */
static const int64_t token_list[N_SENTENCES][LONGEST + 1] = {
    { 43, 68, 6, 28, 27, 67, 20 },
    { 43, 63, 47, 60, 59, 42, 46, 48 },
    { 11, 50, 23, 44, 51, 68, 44, 52, 53 },
    { 12, 47, 4, 10, 21, 61, 67, 34 },
    { 55, 62, 32 },
    { 38, 20 },
    { 39, 31, 22, 66, 5, 40, 13, 69 },
    { 9, 44, 25, 57, 18, 20 },
    { 26, 45, 56, 18, 30, 58, 65, 14, 67, 66, 10, 54, 59, 35 },
    { 7, 24, 36, 8, 18, 37, 15, 41, 16, 17, 49 },
    { 19, 33, 24, 29, 5, 40, 64 },
};

#endif
