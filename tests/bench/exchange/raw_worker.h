// The worker of a raw loop, with one thread or with two. With two it has what paceline-worker has: a training
// thread, which hands its gradient over (an inproc socket) and copies each answer to its place as it arrives,
// and an I/O thread, which has the sockets. With one it does all by itself, which no training thread of a
// parameter server can: it would neither hear nor beat while it computes.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "tests/bench/exchange/mailbox.h"
#include "tests/bench/exchange/raw_parts.h"

namespace paceline::bench {

// `steps` after `warm_up` of them: send(part, k) for every frame, receive(part) for every answer,
// land(answer) to copy it. `threads` is 1 or 2. Returns the mean seconds of a step.
template <class Send, class Receive, class Land>
double run_worker(zmq::context_t& context, std::vector<Part>& servers, int threads, std::int64_t steps,
                  std::int64_t warm_up, Send send, Receive receive, Land land) {
  using Answer = decltype(receive(servers.front()));
  constexpr const char* kHandOver = "inproc://hand-over";
  std::int64_t frames = 0;
  for (const Part& server : servers) frames += server.sizes.frames();

  Mailbox<Answer> mailbox;
  zmq::socket_t hand_over(context, zmq::socket_type::pair);
  hand_over.bind(kHandOver);
  std::thread io;
  if (threads == 2) {
    io = std::thread([&] {
      zmq::socket_t inside(context, zmq::socket_type::pair);
      inside.connect(kHandOver);
      zmq::message_t step;
      while (inside.recv(step) && step.size() > 0) {
        send_all(servers, send);
        receive_all(servers, [&](Part& server) { mailbox.put(receive(server)); });
      }
    });
  }
  auto began = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps + warm_up; ++step) {
    if (step == warm_up) began = std::chrono::steady_clock::now();
    if (threads == 2) {
      hand_over.send(zmq::message_t(sizeof step), zmq::send_flags::none);
      for (std::int64_t frame = 0; frame < frames; ++frame) land(mailbox.take());
    } else {
      send_all(servers, send);
      receive_all(servers, [&](Part& server) { land(receive(server)); });
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (threads == 2) {
    hand_over.send(zmq::message_t(), zmq::send_flags::none);
    io.join();
  }
  send_leave(servers);
  return took.count() / static_cast<double>(steps);
}

}  // namespace paceline::bench
