// What a server is told on a descriptor of the programs that have ended.
#include "server/run/ended_programs.h"

#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace paceline::server {
namespace {

using Catch::Contains;

// What is taken of `text`, which comes in two pieces, before the other end is closed.
std::vector<std::string> taken_of(const std::string& text) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  boost::asio::io_context io;
  const Log log;
  std::vector<std::string> taken;
  EndedPrograms programs(io, 3, log, [&](NodeId node, const std::string& how) {
    taken.push_back(to_string(node) + ": " + how);
  });
  REQUIRE(programs.open(ends[0]).is_ok());
  for (const std::string& piece : {text.substr(0, 3), text.substr(std::min<std::size_t>(3, text.size()))}) {
    REQUIRE(::write(ends[1], piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()));
    io.poll();
    io.restart();
  }
  ::close(ends[1]);
  io.run();  // to the end of the pipe
  return taken;
}

TEST_CASE("each line names a node and how its program has ended; after another nothing is taken") {
  CHECK(taken_of("1 status 3\n0 SIGKILL\n") == std::vector<std::string>{"1: status 3", "0: SIGKILL"});
  CHECK(taken_of("1 status 3") == std::vector<std::string>{});  // no whole line
  CHECK(taken_of("2 a\n").size() == 1);
  for (const char* const wrong : {"3 a", "-1 a", "x", "", "1", "1 ", "1a b", "4294967297 a"}) {
    INFO(wrong);
    CHECK(taken_of(wrong + std::string("\n1 status 3\n")).empty());
  }
  CHECK(taken_of("1 " + std::string(300, 'x') + "\n1 status 3\n").empty());
}

TEST_CASE("what is no pipe's end is refused") {
  boost::asio::io_context io;
  const Log log;
  EndedPrograms programs(io, 3, log, {});
  const Status refused = programs.open(-1);
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(refused.message(),
             Contains("--ended-programs: got descriptor -1: ") && Contains(", expected a pipe's end"));
}

}  // namespace
}  // namespace paceline::server
