/* nn/token.c - tokens, which tell whether a module still exists.
 *
 * A module may be freed before backward, and backward must detect this. So a graph holds a token of
 * the module instead of the module. */
#include "nn/nn_internal.h"

#include <stdatomic.h>

struct br_module_token {
    atomic_int refs;
    br_module *module; /* NULL once the module is freed */
};

void br__token_release(br_module_token *token)
{
    if (token && atomic_fetch_sub(&token->refs, 1) == 1)
        br_free(token);
}

void br__token_end(br_module_state *state)
{
    if (state->token)
        state->token->module = NULL;
    br__token_release(state->token);
    state->token = NULL;
}

br_module *br__token_module(const br_module_token *token)
{
    return token->module;
}

bool br__token_begin(br_module_state *state)
{
    if (state->token)
        return true;
    br_module_token *token = br_malloc(sizeof *token);
    if (!token)
        return false;
    atomic_init(&token->refs, 1);
    token->module = state->module;
    state->token = token;
    return true;
}

br_module_token *br__token_of(br_module_state *state)
{
    if (!br__token_begin(state))
        return NULL;
    atomic_fetch_add(&state->token->refs, 1);
    return state->token;
}
