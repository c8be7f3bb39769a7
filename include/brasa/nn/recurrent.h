/* brasa/nn/recurrent.h - RNN, LSTM and GRU, and their cells; part of brasa/nn.h. */
#ifndef BRASA_NN_RECURRENT_H
#define BRASA_NN_RECURRENT_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_rnn_options {
    size_t struct_size;
    int64_t num_layers;
    bool bias;
    bool batch_first; /* [batch, length, size] instead of [length, batch, size] */
    double dropout;   /* applied to the input of each layer but the first */
    bool bidirectional;
    bool relu;         /* nn.RNN only: relu instead of tanh */
    int64_t proj_size; /* nn.LSTM only: size that states are projected to; 0: no projection */
} br_rnn_options;
#define br_rnn_default_fields .struct_size = sizeof(br_rnn_options), .num_layers = 1, .bias = true
BR_API br_rnn_options br_rnn_defaults(void);

typedef struct br_rnn {
    br_module base;
    br_tensor **weights; /* for each layer and direction: weight_ih, weight_hh, bias_ih, bias_hh,
                            weight_hr; the last three may be NULL. Names in state dicts:
                            "weight_ih_l0", "weight_ih_l0_reverse" and so on */
    int64_t input_size, hidden_size;
    int kind; /* private: the kind of cell */
    br_rnn_options options;
} br_rnn;
/* Create nn.RNN, nn.LSTM (Hochreiter and Schmidhuber, 1997) and nn.GRU (Cho et al., 2014). All
 * parameters are uniform on +-1/sqrt(hidden_size). `options` may be NULL. */
BR_API br_rnn *br_rnn_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
BR_API br_rnn *br_lstm_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
BR_API br_rnn *br_gru_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
/* Returns the last layer's states [L, N, directions * hidden_size] for input [L, N, input_size].
 * Without a batch, the dimension N is absent everywhere. h_0 and, for an LSTM, c_0 are [layers *
 * directions, N, hidden_size], or NULL for zeros. *h_n and *c_n receive the last states, in the
 * same shape, unless h_n or c_n is NULL. If proj_size is set, it replaces hidden_size in the
 * results, h_0 and h_n. */
BR_API br_tensor *br_rnn_forward(br_rnn *self, br_tensor *input, br_tensor *h_0, br_tensor *c_0,
                                 br_tensor **h_n, br_tensor **c_n);
/* Like br_rnn_forward(), for a batch of padded sequences with `lengths` steps, i64 [N]. Results
 * after a sequence's end are 0. The forward direction's last states are those of each sequence's
 * last step, and the reverse direction begins at that step. Equivalent to pack_padded_sequence()
 * before the module and pad_packed_sequence() after it. */
BR_API br_tensor *br_rnn_forward_lengths(br_rnn *self, br_tensor *input, br_tensor *lengths,
                                         br_tensor *h_0, br_tensor *c_0, br_tensor **h_n,
                                         br_tensor **c_n);

/* ---- Cells (nn/recurrent_cells.c) ------------------------------------------------------------ */

typedef struct br_rnn_cell {
    br_module base;
    br_tensor *weight_ih; /* [gates * hidden_size, input_size]; 4 gates in an LSTM, 3 in a GRU */
    br_tensor *weight_hh; /* [gates * hidden_size, hidden_size] */
    br_tensor *bias_ih, *bias_hh; /* [gates * hidden_size] or NULL */
    int64_t input_size, hidden_size;
    int kind; /* private: the kind of cell */
} br_rnn_cell;
/* Create nn.RNNCell, with relu instead of tanh if `relu` is true, nn.LSTMCell and nn.GRUCell: one
 * step of a layer. All parameters are uniform on +-1/sqrt(hidden_size). */
BR_API br_rnn_cell *br_rnn_cell_new(int64_t input_size, int64_t hidden_size, bool bias, bool relu);
BR_API br_rnn_cell *br_lstm_cell_new(int64_t input_size, int64_t hidden_size, bool bias);
BR_API br_rnn_cell *br_gru_cell_new(int64_t input_size, int64_t hidden_size, bool bias);
/* Returns the next state [N, hidden_size] for input [N, input_size] and the state h [N,
 * hidden_size], without the dimension N if the input has none. An LSTM also has a cell state c of
 * that shape, and stores the next one in *c_next unless c_next is NULL; with other cells c must be
 * NULL, and *c_next is NULL. NULL for h or c means zeros. */
BR_API br_tensor *br_rnn_cell_forward(br_rnn_cell *self, br_tensor *input, br_tensor *h,
                                      br_tensor *c, br_tensor **c_next);

#ifdef __cplusplus
}
#endif

#endif
