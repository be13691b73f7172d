// The limit of a small step: a message of 100 bytes there and one back over plain libzmq, with the hand-offs
// that a step makes and no protocol: training thread, I/O thread, (ZeroMQ's own,) server's loop, I/O thread,
// training thread. The training thread hands its message over an inproc socket and waits at a condition
// variable for the answer.
//
//   bench_raw_messages server ENDPOINT WORKERS
//   bench_raw_messages worker ENDPOINT STEPS WARM_UP_STEPS       prints {"seconds_per_step": …}
//
// The server ends when each worker has said goodbye (an empty message).
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "tests/bench/exchange/mailbox.h"

namespace {

constexpr std::size_t kBytes = 100;
constexpr const char* kHandOver = "inproc://hand-over";

int serve(const std::string& endpoint, int workers) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.bind(endpoint);
  for (int left = workers; left > 0;) {
    zmq::message_t id;
    zmq::message_t message;
    (void)socket.recv(id);
    (void)socket.recv(message);
    if (message.size() == 0) {
      --left;
      continue;
    }
    socket.send(id, zmq::send_flags::sndmore);
    socket.send(zmq::message_t(message.data(), message.size()), zmq::send_flags::none);
  }
  return 0;
}

// What the I/O thread leaves for the training thread: that an answer has come.
using Mailbox = paceline::bench::Mailbox<bool>;

// Passes on what the training thread hands over, and answers; until it hands over an empty message.
void run_io(zmq::context_t& context, const std::string& endpoint, Mailbox& mailbox) {
  zmq::socket_t inside(context, zmq::socket_type::pair);
  inside.connect(kHandOver);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.connect(endpoint);
  std::array<zmq::pollitem_t, 2> items{
      {{inside.handle(), 0, ZMQ_POLLIN, 0}, {socket.handle(), 0, ZMQ_POLLIN, 0}}};
  for (bool goes_on = true; goes_on;) {
    zmq::poll(items, std::chrono::milliseconds(-1));
    zmq::message_t message;
    if ((items[0].revents & ZMQ_POLLIN) != 0) {
      (void)inside.recv(message);
      goes_on = message.size() > 0;
      socket.send(message, zmq::send_flags::none);
    }
    if ((items[1].revents & ZMQ_POLLIN) != 0) {
      (void)socket.recv(message);
      mailbox.put(true);
    }
  }
}

int work(const std::string& endpoint, std::int64_t steps, std::int64_t warm_up) {
  zmq::context_t context(1);
  zmq::socket_t hand_over(context, zmq::socket_type::pair);
  hand_over.bind(kHandOver);
  Mailbox mailbox;
  std::thread io([&] { run_io(context, endpoint, mailbox); });
  auto began = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps + warm_up; ++step) {
    if (step == warm_up) began = std::chrono::steady_clock::now();
    hand_over.send(zmq::message_t(kBytes), zmq::send_flags::none);
    mailbox.take();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  hand_over.send(zmq::message_t(), zmq::send_flags::none);
  io.join();
  std::cout << "{\"seconds_per_step\": " << took.count() / static_cast<double>(steps) << "}\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "server" && argc == 4) return serve(argv[2], std::stoi(argv[3]));
  if (role == "worker" && argc == 5) return work(argv[2], std::stoll(argv[3]), std::stoll(argv[4]));
  std::cerr << "usage: bench_raw_messages server ENDPOINT WORKERS\n"
               "       bench_raw_messages worker ENDPOINT STEPS WARM_UP_STEPS\n";
  return 2;
}
