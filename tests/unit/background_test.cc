// Work on another thread, while the loop goes on.
#include <boost/asio/executor_work_guard.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "server/loop/background_thread.h"

namespace paceline::server {
namespace {

TEST_CASE("the loop goes on while work takes long, and is told of its end in order") {
  boost::asio::io_context loop;
  std::promise<void> slow;  // the work waits for what only the loop does meanwhile
  std::vector<std::string> received;
  BackgroundThread background(loop, [&] { received.push_back("behind"); });
  const auto loop_thread = std::this_thread::get_id();
  const auto notify = [&](const Status& status, Ticks) {
    CHECK(std::this_thread::get_id() == loop_thread);
    received.push_back(status.message());
  };
  background.run(
      [&] {
        const bool waited = slow.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
        return waited ? unavailable("the disk is full") : internal_error("the loop stood still");
      },
      notify);
  background.run([] { return unavailable("second"); }, notify);
  boost::asio::post(loop, [&] {
    CHECK(received.empty());
    slow.set_value();
  });
  const auto until_done = boost::asio::make_work_guard(loop);
  while (received.size() < 4) REQUIRE(loop.run_one_for(std::chrono::seconds(20)) == 1);
  CHECK(received == std::vector<std::string>{"the disk is full", "behind", "second", "behind"});
}

TEST_CASE("work that was given is done before its thread ends, though nobody is told") {
  boost::asio::io_context loop;
  bool done = false;
  bool received = false;
  {
    BackgroundThread background(loop, [] {});
    background.run(
        [&] {
          done = true;
          return Status::ok();
        },
        [&](const Status&, Ticks) { received = true; });
  }
  CHECK(done);
  CHECK_FALSE(received);
}

}  // namespace
}  // namespace paceline::server
