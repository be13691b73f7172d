// What the transport's tests share: a loop that runs until something happened or a deadline passed, addresses
// that are free, and payloads whose release is seen.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <semaphore>
#include <string>
#include <vector>

#include "common/wire/transport.h"

namespace paceline::wire {

// Runs `io` until `done` holds. False when it does not within a minute.
inline bool run_until(boost::asio::io_context& io, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    io.restart();
    io.run_one_for(std::chrono::milliseconds(10));
  }
  return true;
}

// A folder that is gone with this.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "paceline-wire-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string ipc(const std::string& name) const { return "ipc://" + (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Payloads of `floats` consecutive numbers; released() waits until one more of them was let go of.
class Payloads {
 public:
  Payload make(float first, std::size_t floats) {
    auto* values = new std::vector<float>(floats);
    std::iota(values->begin(), values->end(), first);
    const std::shared_ptr<const void> owner(values, [this](const std::vector<float>* v) {
      delete v;
      released_.release();
    });
    return {owner, reinterpret_cast<const std::byte*>(values->data()), floats * sizeof(float)};
  }
  bool released() { return released_.try_acquire_for(std::chrono::seconds(20)); }
  bool released_already() { return released_.try_acquire(); }

 private:
  std::counting_semaphore<> released_{0};
};

}  // namespace paceline::wire
