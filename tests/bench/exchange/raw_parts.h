// What both raw loops are made of: how a model is cut into frames, the server's step, and sockets set up
// alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <zmq.hpp>

#include "common/params/optimizer.h"

namespace paceline::bench {

struct Sizes {
  std::int64_t floats;
  std::int64_t frame;  // floats
  std::int64_t frames() const { return (floats + frame - 1) / frame; }
  std::int64_t size(std::int64_t k) const { return std::min(frame, floats - k * frame); }
};

inline OptimizerState sgd(const Sizes& sizes) {
  OptimizerSection settings;
  settings.kind = OptimizerKind::kSgd;
  OptimizerState optimizer(settings, sizes.floats);
  optimizer.begin_step(1e-3);
  return optimizer;
}

inline zmq::socket_t raw_socket(zmq::context_t& context, zmq::socket_type type) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::rcvhwm, 256);
  socket.set(zmq::sockopt::sndhwm, 65536);
  return socket;
}

}  // namespace paceline::bench
