// Applying a gradient on several cores: the blocks of a shard are independent of each other, so each thread
// takes the next one that nobody has. Which thread takes which block changes nothing: the same operations in
// each element, the same bits (docs/SYNC.md, What is reproducible).
//
// Thread: run() by one thread at a time, the shard's own, which takes blocks itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace paceline::server {

class ApplyPool {
 public:
  // With `threads` threads in all, the caller of run() among them; at least 1. The others are started by the
  // first run() that has work for them.
  explicit ApplyPool(std::size_t threads);
  ~ApplyPool();
  ApplyPool(ApplyPool&&) noexcept;  // not while run() goes on
  ApplyPool& operator=(ApplyPool&&) = delete;

  std::size_t threads() const { return threads_; }

  // Calls work(thread, i) once for each i of [0, count), `thread` being one of [0, threads()) that nobody
  // else has at that moment, and returns when all are done. What throws in here, memory that is not to be
  // had, ends the process: helpers that go on while the caller unwinds would work on what is gone.
  void run(std::int64_t count, const std::function<void(std::size_t thread, std::int64_t i)>& work) noexcept;

 private:
  struct Helpers;
  std::size_t threads_;
  std::unique_ptr<Helpers> helpers_;
};

}  // namespace paceline::server
