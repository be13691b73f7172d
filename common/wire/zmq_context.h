// What the sockets of one ZeroMQ context share: the context itself, addresses within the process, and whoever
// is asked who may come in.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <zmq.hpp>

#include "common/wire/transport.h"
#include "common/wire/zmq_gate.h"

namespace paceline::wire {

struct Context::Impl {
  ~Impl() {
    if (gate_) zmq.shutdown();  // which ends the gate's wait
  }

  std::string inproc_address(const char* what) {
    return std::string("inproc://") + what + "-" + std::to_string(inproc_++);
  }
  // Made with the first socket that has keys. Throws zmq::error_t. Thread: any.
  Gate& gate() {
    const std::lock_guard lock(mutex_);
    if (!gate_) gate_ = std::make_unique<Gate>(zmq);
    return *gate_;
  }

  zmq::context_t zmq{1};  // one I/O thread: more gained nothing

 private:
  std::atomic<std::int64_t> inproc_{0};  // addresses given out; ZeroMQ is late to free one
  std::mutex mutex_;
  std::unique_ptr<Gate> gate_;
};

}  // namespace paceline::wire
