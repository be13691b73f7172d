// The limit of the parameter path in shared memory: plain mappings, and ZeroMQ for control, no protocol. As
// raw_loop.cc, but what travels is the header alone: the server applies SGD to each frame where the worker
// has it, and the worker copies the answer out of the server's weights.
//
//   bench_raw_shared_loop server ENDPOINT FLOATS FRAME_BYTES WORKERS FOLDER
//   bench_raw_shared_loop worker ENDPOINTS FLOATS FRAME_BYTES STEPS WARM_UP_STEPS THREADS FOLDERS NUMBER
//                                                                     prints {"seconds_per_step": …}
//
// A FOLDER lies in memory (/dev/shm) and is one server's: there are the files `weights` and
// `gradient<NUMBER>`, mapped with the same advice as the segments of common/wire/shared_memory.h. ENDPOINTS
// and FOLDERS are those of one or several servers, with commas between them. The server ends when each worker
// has said goodbye. What a worker copies may be torn by another's frame, as there.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
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

struct Header {  // about as long as a Push or Parameters header that names a region
  std::int64_t worker;
  std::int64_t offset;
  std::int64_t floats;
  char rest[40];
};

// A file of zeros in memory, made by whoever comes first. Mapped until the process ends.
float* map(const std::string& file, std::int64_t floats) {
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    std::cerr << "cannot make " << file << '\n';
    std::exit(1);
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    std::cerr << "cannot map " << file << '\n';
    std::exit(1);
  }
  // Where the system offers huge pages for shared memory; elsewhere it says no.
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<float*>(memory);
}

std::string gradient_file(const std::string& folder, std::int64_t worker) {
  return folder + "/gradient" + std::to_string(worker);
}

int serve(const std::string& endpoint, Sizes sizes, int workers, const std::string& folder) {
  float* const weights = map(folder + "/weights", sizes.floats);
  std::vector<const float*> gradients;
  for (int w = 0; w < workers; ++w) gradients.push_back(map(gradient_file(folder, w), sizes.floats));
  paceline::OptimizerState optimizer = paceline::bench::sgd(sizes);
  zmq::context_t context(1);
  zmq::socket_t socket = paceline::bench::raw_socket(context, zmq::socket_type::router);
  socket.bind(endpoint);
  for (int left = workers; left > 0;) {
    zmq::message_t id;
    zmq::message_t head;
    (void)socket.recv(id);
    (void)socket.recv(head);
    if (head.size() != sizeof(Header)) {
      --left;
      continue;
    }
    Header header;
    std::memcpy(&header, head.data(), sizeof header);
    const auto count = static_cast<std::size_t>(header.floats);
    float* const part = weights + header.offset;
    const float* const gradient = gradients[static_cast<std::size_t>(header.worker)] + header.offset;
    optimizer.apply(header.offset, {part, count}, {part, count}, {gradient, count});
    socket.send(id, zmq::send_flags::sndmore);
    socket.send(head, zmq::send_flags::none);
  }
  return 0;
}

// What a worker maps of one server's folder.
struct Memory {
  const float* weights;
  float* gradient;
};

// Floats of one server's weights, to be copied to their place.
struct Answer {
  const float* weights;
  std::int64_t server_begin;
  zmq::message_t head;
};

int work(const std::string& endpoints, Sizes sizes, std::int64_t steps, std::int64_t warm_up, int threads,
         const std::string& folders, std::int64_t number) {
  std::vector<float> parameters(static_cast<std::size_t>(sizes.floats));
  zmq::context_t context(1);
  std::vector<Part> servers = paceline::bench::connect(context, endpoints, sizes);
  std::vector<Memory> memory;
  for (const std::string& folder : paceline::bench::split(folders)) {
    const std::int64_t floats = servers[memory.size()].sizes.floats;
    memory.push_back({map(folder + "/weights", floats), map(gradient_file(folder, number), floats)});
    std::fill_n(memory.back().gradient, floats, 0.0F);
  }
  const auto send = [&](Part& server, std::int64_t k) {
    const Header header{number, k * sizes.frame, server.sizes.size(k), {}};
    server.socket.send(zmq::message_t(&header, sizeof header), zmq::send_flags::none);
  };
  const auto receive = [&](Part& server) {
    Answer answer{memory[static_cast<std::size_t>(&server - servers.data())].weights, server.begin, {}};
    (void)server.socket.recv(answer.head);
    return answer;
  };
  const auto land = [&](const Answer& answer) {
    Header header;
    std::memcpy(&header, answer.head.data(), sizeof header);
    float* const place = parameters.data() + answer.server_begin + header.offset;
    std::copy_n(answer.weights + header.offset, header.floats, place);
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
  if ((role == "server" && argc == 7) || (role == "worker" && argc == 10)) {
    const Sizes sizes{std::stoll(argv[3]), std::stoll(argv[4]) / std::int64_t{sizeof(float)}};
    // A worker's parameters; the rest lies in the files.
    paceline::wire::prefer_huge_pages(sizeof(float) * static_cast<std::size_t>(sizes.floats));
    if (role == "server") return serve(argv[2], sizes, std::stoi(argv[5]), argv[6]);
    return work(argv[2], sizes, std::stoll(argv[5]), std::stoll(argv[6]), std::stoi(argv[7]), argv[8],
                std::stoll(argv[9]));
  }
  std::cerr << "usage: bench_raw_shared_loop server ENDPOINT FLOATS FRAME_BYTES WORKERS FOLDER\n"
               "       bench_raw_shared_loop worker ENDPOINTS FLOATS FRAME_BYTES STEPS WARM_UP_STEPS "
               "THREADS FOLDERS NUMBER\n";
  return 2;
}
