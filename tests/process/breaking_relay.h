// A relay of bytes between nodes and one server, over the transport that the server listens on, which breaks
// connections: after so many bytes as chance wants both ends are reset, in the midst of a message or not, and
// whatever was on its way over it, in either direction, is lost. To both it is a network that breaks. After
// `breaks` of them it breaks no more, so that everybody finishes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "common/random.h"

namespace paceline::testing {

// What is drawn for each connection: it ends after [least, most] bytes, both directions counted together.
struct Breaks {
  std::uint64_t seed = 0;
  std::int64_t breaks = 0;
  std::int64_t least = 200;
  std::int64_t most = 20'000;
};

class BreakingRelay {
 public:
  // Listens at `endpoint` ("tcp://127.0.0.1:*" or "ipc://path") for nodes, and connects each to the server at
  // `server`, of the same kind.
  BreakingRelay(const std::string& server, const std::string& endpoint, const Breaks& breaks);
  ~BreakingRelay();
  BreakingRelay(const BreakingRelay&) = delete;
  BreakingRelay& operator=(const BreakingRelay&) = delete;

  // Where it listens, with the port that the system chose.
  std::string endpoint() const;
  // Connections that it has broken. Thread: any.
  std::int64_t broken() const;

  struct Loop;

 private:
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace paceline::testing
