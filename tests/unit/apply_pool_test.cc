// The pool that applies blocks on several threads: every block once, by threads that do not share a number.
#include "server/store/apply_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

namespace paceline::server {
namespace {

TEST_CASE("each block is taken once, whatever the number of threads, again and again") {
  for (const std::size_t threads : {1, 2, 5}) {
    ApplyPool pool(threads);
    for (const std::int64_t count : {0, 1, 4, 5, 64, 257}) {
      std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
      std::vector<std::atomic<int>> inside(threads);
      std::atomic<bool> shared{false};
      pool.run(count, [&](std::size_t thread, std::int64_t i) {
        if (inside.at(thread)++ != 0) shared = true;
        ++taken.at(static_cast<std::size_t>(i));
        --inside.at(thread);
      });
      for (const auto& times : taken) CHECK(times == 1);
      CHECK_FALSE(shared);
    }
  }
}

TEST_CASE("no threads at all means the caller alone") { CHECK(ApplyPool(0).threads() == 1); }

}  // namespace
}  // namespace paceline::server
