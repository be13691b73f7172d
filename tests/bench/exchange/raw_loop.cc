// The limit of the parameter path: plain libzmq, no protocol. A server that applies SGD to each frame as it
// arrives and answers it from its weights at once, and workers that send a gradient in frames, without a
// copy, and copy what comes back. Same frame size, same memory switches, one ZeroMQ io thread a process, the
// server's own kernel.
//
//   bench_raw_loop server ENDPOINT FLOATS FRAME_BYTES WORKERS
//   bench_raw_loop worker ENDPOINTS FLOATS FRAME_BYTES STEPS WARM_UP_STEPS THREADS
//                                                                     prints {"seconds_per_step": …}
//
// THREADS of a worker are 2, as paceline-worker has them, or 1 (raw_worker.h). ENDPOINTS are those of one or
// several servers, with commas between them: each has the range of the worker's FLOATS that a shard would
// have (common/params/partition.h), and its own FLOATS are that range's. A server applies with one thread. It
// ends when each worker has said goodbye (an empty frame). Frames may come in any order of workers; a reply
// is torn when another worker's frame is applied while it leaves, which a parameter server must not allow and
// this may.
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/wire/memory.h"
#include "tests/bench/exchange/raw_parts.h"
#include "tests/bench/exchange/raw_worker.h"

namespace {

using paceline::bench::Part;
using paceline::bench::Sizes;

struct Header {  // about as long as a Push or Parameters header
  std::int64_t offset;
  std::int64_t floats;
  char rest[32];
};

void keep(void*, void*) {}  // the vectors outlive the context

void send_frame(zmq::socket_t& socket, const Header& header, float* values) {
  socket.send(zmq::message_t(&header, sizeof header), zmq::send_flags::sndmore);
  const auto bytes = static_cast<std::size_t>(header.floats) * sizeof(float);
  socket.send(zmq::message_t(values, bytes, &keep, nullptr), zmq::send_flags::none);
}

int serve(const std::string& endpoint, Sizes sizes, int workers) {
  std::vector<float> weights(static_cast<std::size_t>(sizes.floats));
  paceline::OptimizerState optimizer = paceline::bench::sgd(sizes);
  zmq::context_t context(1);
  zmq::socket_t socket = paceline::bench::raw_socket(context, zmq::socket_type::router);
  socket.bind(endpoint);
  for (int left = workers; left > 0;) {
    zmq::message_t id;
    zmq::message_t head;
    zmq::message_t payload;
    (void)socket.recv(id);
    (void)socket.recv(head);
    if (head.size() != sizeof(Header)) {
      --left;
      continue;
    }
    (void)socket.recv(payload);
    Header header;
    std::memcpy(&header, head.data(), sizeof header);
    const auto count = static_cast<std::size_t>(header.floats);
    float* const part = weights.data() + header.offset;
    optimizer.apply(header.offset, {part, count}, {part, count}, {payload.data<const float>(), count});
    socket.send(id, zmq::send_flags::sndmore);
    send_frame(socket, header, part);
  }
  return 0;
}

// A frame of parameters, on its way to its place.
struct Answer {
  std::int64_t server_begin;
  zmq::message_t head;
  zmq::message_t payload;
};

int work(const std::string& endpoints, Sizes sizes, std::int64_t steps, std::int64_t warm_up, int threads) {
  std::vector<float> gradient(static_cast<std::size_t>(sizes.floats));
  std::vector<float> parameters(static_cast<std::size_t>(sizes.floats));
  zmq::context_t context(1);
  std::vector<Part> servers = paceline::bench::connect(context, endpoints, sizes);
  const auto send = [&](Part& server, std::int64_t k) {
    const std::int64_t offset = k * sizes.frame;
    send_frame(server.socket, {offset, server.sizes.size(k), {}}, gradient.data() + server.begin + offset);
  };
  const auto receive = [](Part& server) {
    Answer answer{server.begin, {}, {}};
    (void)server.socket.recv(answer.head);
    (void)server.socket.recv(answer.payload);
    return answer;
  };
  const auto land = [&](Answer answer) {
    Header header;
    std::memcpy(&header, answer.head.data(), sizeof header);
    float* const place = parameters.data() + answer.server_begin + header.offset;
    std::memcpy(place, answer.payload.data(), answer.payload.size());
  };
  const double seconds =
      paceline::bench::run_worker(context, servers, threads, steps, warm_up, send, receive, land);
  std::cout << "{\"seconds_per_step\": " << seconds << "}\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  paceline::wire::keep_freed_memory();
  const std::string role = argc > 1 ? argv[1] : "";
  if ((role == "server" && argc == 6) || (role == "worker" && argc == 8)) {
    const Sizes sizes{std::stoll(argv[3]), std::stoll(argv[4]) / std::int64_t{sizeof(float)}};
    // What the vectors and the frames on their way take.
    paceline::wire::prefer_huge_pages(4 * sizeof(float) * static_cast<std::size_t>(sizes.floats));
    if (role == "server") return serve(argv[2], sizes, std::stoi(argv[5]));
    return work(argv[2], sizes, std::stoll(argv[5]), std::stoll(argv[6]), std::stoi(argv[7]));
  }
  std::cerr << "usage: bench_raw_loop server ENDPOINT FLOATS FRAME_BYTES WORKERS\n"
               "       bench_raw_loop worker ENDPOINTS FLOATS FRAME_BYTES STEPS WARM_UP_STEPS THREADS\n";
  return 2;
}
