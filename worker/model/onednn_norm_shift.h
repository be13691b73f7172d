// The shift among what a norm's backward pass is given, which does not read it.
#pragma once

#include "worker/model/onednn_program.h"

namespace paceline::onednn {

// Version 2.6 of oneDNN refuses to execute that pass without a shift, version 3 with one.
inline void add_unread_shift(Arguments& arguments, const memory& shift) {
  if constexpr (DNNL_VERSION_MAJOR < 3) arguments.emplace(DNNL_ARG_SHIFT, shift);
}

}  // namespace paceline::onednn
