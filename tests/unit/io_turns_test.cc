// A client's I/O loop is run by its own thread, or by the one that waits for what comes over it.
#include "worker/client/io_turns.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

namespace paceline {
namespace {

using namespace std::chrono_literals;

struct Loop {
  explicit Loop(bool shares) : turns(io, shares), own([this] { turns.run(); }) {}
  ~Loop() {
    boost::asio::post(io, [this] { io.stop(); });
    own.join();
  }

  // Posts something and waits for it, as a training thread does; on which thread it ran.
  std::thread::id round() {
    std::promise<std::thread::id> ran;
    std::atomic<bool> came = false;
    auto where = ran.get_future();
    boost::asio::post(io, [&] {
      came = true;
      ran.set_value(std::this_thread::get_id());
    });
    const IoTurns::Wait wait(turns, [&] { return came.load(); });
    return where.get();
  }
  // Until the thread that waits runs the loop itself.
  void until_taken() {
    const auto late = std::chrono::steady_clock::now() + 60s;
    while (round() != std::this_thread::get_id()) REQUIRE(std::chrono::steady_clock::now() < late);
  }

  boost::asio::io_context io;
  IoTurns turns;
  std::thread own;
};

TEST_CASE("a thread that waits runs the loop itself, once the own thread has served it") {
  Loop loop(/*shares=*/true);
  loop.until_taken();
}

TEST_CASE("where the loop is not shared the own thread alone runs it") {
  Loop loop(/*shares=*/false);
  for (int n = 0; n < 20; ++n) CHECK(loop.round() == loop.own.get_id());
}

TEST_CASE("while the thread that took its turn computes, the own thread serves others") {
  Loop loop(/*shares=*/true);
  loop.until_taken();
  std::promise<std::thread::id> ran;
  boost::asio::post(loop.io, [&] { ran.set_value(std::this_thread::get_id()); });
  CHECK(ran.get_future().get() == loop.own.get_id());
}

TEST_CASE("after a long turn, which the own thread sleeps through, it serves others") {
  Loop loop(/*shares=*/true);
  loop.until_taken();
  std::atomic<bool> over = false;
  boost::asio::steady_timer timer(loop.io, 20 * IoTurns::kAside);
  boost::asio::post(loop.io, [&] { timer.async_wait([&](auto) { over = true; }); });
  {
    const IoTurns::Wait wait(loop.turns, [&] { return over.load(); });
  }
  while (!over) std::this_thread::yield();
  std::promise<void> ran;
  boost::asio::post(loop.io, [&] { ran.set_value(); });
  ran.get_future().get();
}

TEST_CASE("what another thread posts is seen by the one that waits") {
  Loop loop(/*shares=*/true);
  loop.until_taken();
  std::atomic<bool> closed = false;
  auto waits = std::async(std::launch::async, [&] {
    const IoTurns::Wait wait(loop.turns, [&] { return closed.load(); });
    while (!closed) std::this_thread::yield();  // where the own thread had the turn
  });
  closed = true;
  boost::asio::post(loop.io, [] {});
  waits.get();
}

TEST_CASE("a turn ends with what a handler throws") {
  Loop loop(/*shares=*/true);
  loop.until_taken();
  boost::asio::post(loop.io, [own = loop.own.get_id()] {
    if (std::this_thread::get_id() != own) throw std::runtime_error("no memory");
  });
  std::atomic<bool> came = false;
  try {
    boost::asio::post(loop.io, [&] { came = true; });
    const IoTurns::Wait wait(loop.turns, [&] { return came.load(); });
  } catch (const std::runtime_error&) {
  }
  CHECK_NOTHROW(loop.round());
}

}  // namespace
}  // namespace paceline
