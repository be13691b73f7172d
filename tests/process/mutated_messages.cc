// Throws mutated messages at a live server over a real socket, as many as it is told, and says how fast:
//
//     mutated_messages ENDPOINT COUNT SEED          from strangers
//     mutated_messages ENDPOINT COUNT SEED JOIN     from a node that has joined with these bytes, hexadecimal
//
// Each is a correct message of some kind, its header changed in one to four places (tests/fuzz/mutate.h),
// sometimes with others that travel in it, with a payload, or with a frame too many. They come from
// strangers, one connection after another, of fewer messages each than break a connection; then comes a join
// that the server answers, and the answer says that it has dealt with all before. So every message that is
// counted here was read, judged and refused.
//
// A node says them from its first grant on, half of them not mutated, most of them about itself, until all
// are said or the server parts with it.
//
// Exit status 1 when the server does not answer, with message and seed.
#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/endian/conversion.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "common/wire/codec.h"
#include "common/wire/connections.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/others.h"
#include "tests/unit/wire_fields.h"

namespace paceline::wire {
namespace {

using boost::asio::generic::stream_protocol;

constexpr int kPerConnection = Connections::kMalformedMax - 2;  // a join that is refused comes after them
constexpr int kAnswerSeconds = 60;
constexpr char kMore = 1;
constexpr char kLong = 2;
constexpr char kCommand = 4;

stream_protocol::endpoint resolved(boost::asio::io_context& io, const std::string& endpoint) {
  if (endpoint.starts_with("ipc://")) {
    return boost::asio::local::stream_protocol::endpoint(endpoint.substr(6));
  }
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with("tcp://") || colon < 6) {
    throw std::runtime_error("endpoint: got " + endpoint + ", expected tcp://host:port or ipc://path");
  }
  boost::asio::ip::tcp::resolver resolver(io);
  return resolver.resolve(endpoint.substr(6, colon - 6), endpoint.substr(colon + 1)).begin()->endpoint();
}

// A DEALER by hand: ZMTP 3.0 with the NULL mechanism (rfc.zeromq.org/spec/23).
class Stranger {
 public:
  Stranger(boost::asio::io_context& io, const stream_protocol::endpoint& endpoint) : socket_(io) {
    socket_.connect(endpoint);
    const timeval deadline{kAnswerSeconds, 0};  // no read or write waits for ever
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof deadline);
    std::string greeting("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
    greeting.resize(64);
    const std::string ready(
        "\x05READY\x0bSocket-Type\0\0\0\x06"
        "DEALER",
        28);
    write(greeting + kCommand + static_cast<char>(ready.size()) + ready);
    read(64);
    frame();  // its READY
  }
  // Without TIME_WAIT, of which a million messages would leave more than there are ports.
  ~Stranger() {
    const linger reset{1, 0};
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  Stranger(const Stranger&) = delete;

  void write(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(socket_.native_handle(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("the server takes no more");
      at += static_cast<std::size_t>(n);
    }
  }
  // Says no more, and waits until the other side has ended the connection, too.
  void end() {
    ::shutdown(socket_.native_handle(), SHUT_WR);
    char rest[4096];
    while (::recv(socket_.native_handle(), rest, sizeof rest, 0) > 0) {
    }
  }
  std::string frame() {
    const bool is_long = (read(1)[0] & kLong) != 0;
    const std::string size = read(is_long ? 8 : 1);
    std::uint64_t bytes = 0;
    for (const char c : size) bytes = bytes << 8 | static_cast<unsigned char>(c);
    return read(bytes);
  }

 private:
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t at = 0; at < size;) {
      const ssize_t n = ::recv(socket_.native_handle(), bytes.data() + at, size - at, 0);
      if (n == 0) throw std::runtime_error("the server has ended the connection");
      if (n < 0)
        throw std::runtime_error("the server has not answered within " + std::to_string(kAnswerSeconds) +
                                 " s");
      at += static_cast<std::size_t>(n);
    }
    return bytes;
  }

  stream_protocol::socket socket_;
};

std::string framed(const std::string& content, char flags = 0) {
  const std::uint64_t size = boost::endian::native_to_big(static_cast<std::uint64_t>(content.size()));
  std::string frame(1, static_cast<char>(flags | kLong));
  frame.append(reinterpret_cast<const char*>(&size), sizeof size);
  return frame + content;
}

// What a node might say of itself, at a clock that it may be at.
template <typename Body>
void make_plausible(Body& body, NodeId node, CounterRandom& random) {
  if constexpr (requires { body.worker = WorkerId(); }) body.worker = WorkerId(node, 0);
  if constexpr (requires { body.node = NodeId(); }) body.node = node;
  if constexpr (requires { body.clock = Clock(); }) {
    if (random.next_below(2) == 0) body.clock = Clock(static_cast<std::int64_t>(random.next_below(3)));
  }
  if constexpr (requires { body.min_version = Version(); }) {
    if (random.next_below(2) == 0) body.min_version = Version(0);
  }
}

std::string of_node(NodeId node, std::uint64_t seed, std::uint64_t number) {
  Generator generate{CounterRandom(seed, Stream::kTest, number)};
  CounterRandom& random = generate.random;
  Message message = generate.message(random.next_below(kBodies));
  const bool about_itself = random.next_below(8) != 0;
  if (about_itself) std::visit([&](auto& body) { make_plausible(body, node, random); }, message.body);
  std::string header = encode(message).value();
  if (random.next_below(4) == 0) header += encode(random_others(generate));
  if (random.next_below(2) == 0) testing::mutate(header, random);
  if (message.payload.empty()) return framed(header);
  const auto* const payload = reinterpret_cast<const char*>(message.payload.data);
  return framed(header, kMore) + framed(std::string(payload, message.payload.size));
}

std::string mutated(std::uint64_t seed, std::uint64_t number) {
  Generator generate{CounterRandom(seed, Stream::kTest, number)};
  std::string header = encode(generate.message(number % kBodies)).value();
  if (generate.random.next_below(4) == 0) header += encode(random_others(generate));
  testing::mutate(header, generate.random);
  switch (generate.random.next_below(8)) {
    case 0:
      return framed(header, kMore) + framed(std::string(generate.random.next_below(100), '\x3f'));
    case 1:
      return framed(header, kMore) + framed(std::string(8, '\0'), kMore) + framed("a frame too many");
    default:
      return framed(header);
  }
}

// Of a protocol version that there is not: it is answered with an Error that says so.
std::string join_to_be_refused() {
  Join join;
  join.protocol_version = 99;
  join.threads = 1;
  join.tensors.push_back({"w", {1}});
  return framed(encode({join, {}}).value());
}

int run(const std::string& endpoint, std::uint64_t count, std::uint64_t seed) {
  boost::asio::io_context io;
  const stream_protocol::endpoint server = resolved(io, endpoint);
  const std::string last = join_to_be_refused();
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t sent = 0;
  std::uint64_t bytes = 0;
  std::uint64_t connections = 0;
  try {
    while (sent < count) {
      Stranger stranger(io, server);
      ++connections;
      std::string all;
      for (int i = 0; i < kPerConnection && sent < count; ++i) all += mutated(seed, sent++);
      bytes += all.size();
      stranger.write(all + last);
      while (stranger.frame().find("protocol version 99") == std::string::npos) {
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutated_messages: %s, near message %llu of seed %llu\n", error.what(),
                 static_cast<unsigned long long>(sent), static_cast<unsigned long long>(seed));
    return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "%llu mutated messages, %.1f MB, over %llu connections, in %.1f s: "
      "%.0f messages/s, seed %llu\n",
      static_cast<unsigned long long>(sent), static_cast<double>(bytes) / 1e6,
      static_cast<unsigned long long>(connections), seconds, static_cast<double>(sent) / seconds,
      static_cast<unsigned long long>(seed));
  return 0;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

int run_as_node(const std::string& endpoint, std::uint64_t count, std::uint64_t seed,
                const std::string& join) {
  constexpr char kGrantTag = 9 << 3 | 2;
  std::uint64_t sent = 0;
  try {
    const Message as = decode(join, {}).value();
    const NodeId node = std::get<Join>(as.body).node;
    boost::asio::io_context io;
    Stranger member(io, resolved(io, endpoint));
    member.write(framed(join));
    while (member.frame()[0] != kGrantTag) {
    }
    try {
      while (sent < count) member.write(of_node(node, seed, sent++));
    } catch (const std::exception&) {
      // The server has parted with it.
    }
    member.end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutated_messages: %s, seed %llu\n", error.what(),
                 static_cast<unsigned long long>(seed));
    return 1;
  }
  std::printf("%llu messages of a node, seed %llu\n", static_cast<unsigned long long>(sent),
              static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace
}  // namespace paceline::wire

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: mutated_messages ENDPOINT COUNT SEED [JOIN]\n");
    return 2;
  }
  using namespace paceline::wire;
  const std::string endpoint = argv[1];
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  return argc == 4 ? run(endpoint, count, seed) : run_as_node(endpoint, count, seed, from_hex(argv[4]));
}
