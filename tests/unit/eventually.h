// Waits for what another thread does.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

namespace paceline::testing {

// Throws where it is not so within a minute.
inline void eventually(const std::function<bool()>& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("it never came");
    std::this_thread::yield();
  }
}

}  // namespace paceline::testing
