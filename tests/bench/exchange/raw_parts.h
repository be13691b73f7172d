// What both raw loops are made of: how a model is cut into servers' ranges and those into frames, the
// server's step, sockets set up alike, and how a worker sends to all servers and hears from them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/params/optimizer.h"
#include "common/params/partition.h"

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

// What a worker has of one server: its socket, and where that server's range begins.
struct Part {
  zmq::socket_t socket;
  Sizes sizes;  // of the range
  std::int64_t begin;
};

// What commas separate.
inline std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, ',');) items.push_back(item);
  return items;
}

// One for each of `endpoints`, which commas separate: ranges as the servers of a run have.
inline std::vector<Part> connect(zmq::context_t& context, const std::string& endpoints, Sizes all) {
  const std::vector<std::string> names = split(endpoints);
  const std::vector<Range> ranges = partition(all.floats, static_cast<std::uint32_t>(names.size()));
  std::vector<Part> parts;
  for (std::size_t k = 0; k < names.size(); ++k) {
    parts.push_back(
        {raw_socket(context, zmq::socket_type::dealer), {ranges[k].size(), all.frame}, ranges[k].begin});
    parts.back().socket.connect(names[k]);
  }
  return parts;
}

// Calls send(part, k) for each frame k of each part, in turns, so that all servers have work at once.
template <class Send>
void send_all(std::vector<Part>& parts, Send send) {
  std::int64_t most = 0;
  for (const Part& part : parts) most = std::max(most, part.sizes.frames());
  for (std::int64_t k = 0; k < most; ++k) {
    for (Part& part : parts) {
      if (k < part.sizes.frames()) send(part, k);
    }
  }
}

// Calls receive(part) for each frame's answer, in whatever order the servers give them.
template <class Receive>
void receive_all(std::vector<Part>& parts, Receive receive) {
  std::vector<std::int64_t> left;
  for (const Part& part : parts) left.push_back(part.sizes.frames());
  if (parts.size() == 1) {  // nothing to choose from
    for (; left[0] > 0; --left[0]) receive(parts[0]);
    return;
  }
  std::vector<zmq::pollitem_t> items;
  for (Part& part : parts) items.push_back({part.socket.handle(), 0, ZMQ_POLLIN, 0});
  while (std::any_of(left.begin(), left.end(), [](std::int64_t n) { return n > 0; })) {
    zmq::poll(items, std::chrono::milliseconds(-1));
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if ((items[p].revents & ZMQ_POLLIN) == 0) continue;
      receive(parts[p]);
      --left[p];
    }
  }
}

inline void send_leave(std::vector<Part>& parts) {
  for (Part& part : parts) part.socket.send(zmq::message_t(), zmq::send_flags::none);
}

}  // namespace paceline::bench
