/* brasa/brasa.h - includes all public headers of Brasa. */
#ifndef BRASA_BRASA_H
#define BRASA_BRASA_H

#include <brasa/autograd.h>
#include <brasa/chat.h>
#include <brasa/check.h>
#include <brasa/data.h>
#include <brasa/distributed.h>
#include <brasa/io.h>
#include <brasa/metrics.h>
#include <brasa/models.h>
#include <brasa/nn.h>
#include <brasa/ops.h>
#include <brasa/optim.h>
#include <brasa/pretrained.h>
#include <brasa/profile.h>
#include <brasa/tensor.h>
#include <brasa/tokenizers.h>
#include <brasa/viz.h>

#endif
