// Threads that make what they work with, and wait for the word.
#include "worker/prepared_threads.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Threads = PreparedThreads<std::uint32_t>;

Result<std::uint32_t> its_number(std::uint32_t t) { return t; }

TEST_CASE("who is still making what it works with is told, and nobody works before the word") {
  std::promise<void> go_on;
  std::atomic<int> worked = 0, wrong = 0;
  Threads threads(
      2,
      [wait = go_on.get_future().share()](std::uint32_t t) -> Result<std::uint32_t> {
        if (t == 1) wait.wait();
        return 10 * t;
      },
      [&](std::uint32_t t, const Result<std::uint32_t>& made) {
        wrong += made.is_ok() && *made == 10 * t ? 0 : 1;
        ++worked;
      });
  CHECK(threads.all_started());
  CHECK_FALSE(threads.ready_within(1ms));
  CHECK(threads.not_ready().back() == 1);  // and 0 perhaps
  go_on.set_value();
  CHECK(threads.ready_within(20s));
  CHECK(threads.not_ready().empty());
  CHECK(threads.readiness().is_ok());
  CHECK_FALSE(threads.done_within(1ms));
  CHECK(worked == 0);
  threads.work();
  CHECK(threads.done_within(20s));
  CHECK((worked == 2 && wrong == 0));
}

TEST_CASE("one that can make nothing is told of, and what becomes of it is for the work to say") {
  std::atomic<int> failed = 0;
  Threads threads(
      3,
      [](std::uint32_t t) -> Result<std::uint32_t> {
        if (t == 0) return t;
        return unavailable("thread " + std::to_string(t));
      },
      [&](std::uint32_t, const Result<std::uint32_t>& made) { failed += made.is_ok() ? 0 : 1; });
  CHECK(threads.readiness().message() == "thread 1");
  threads.work();
  CHECK(threads.done_within(20s));
  CHECK(failed == 2);
}

TEST_CASE("threads that are not told to work end without having done so") {
  std::atomic<int> worked = 0;
  {
    const Threads threads(2, its_number, [&](auto, const auto&) { ++worked; });
  }
  CHECK(worked == 0);
}

TEST_CASE("a thread that the system does not give is said, and the others end") {
  int asked = 0;
  std::atomic<int> worked = 0;
  Threads threads(
      3, its_number, [&](auto, const auto&) { ++worked; },
      [&](const std::function<void()>& body) {
        if (++asked == 2)
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        return std::thread(body);
      });
  CHECK_FALSE(threads.all_started());
  CHECK(threads.ready_within(20s));
  const Status why = threads.readiness();
  CHECK(why.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(why.message(), Catch::StartsWith("no thread can be started: "));
  threads.work();
  CHECK(threads.done_within(20s));
  CHECK(worked == 2);
}

}  // namespace
}  // namespace paceline
