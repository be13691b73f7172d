// EndedPrograms: what whoever starts a run's nodes says on a descriptor of this process (--ended-programs): which of
// their programs has ended, and how, a line for each:
//
//     1 status 3
//
// Of a node that has not joined nobody else could say that it will not come.
//
// Thread: the server's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "common/ids.h"
#include "common/log/log.h"
#include "common/status.h"

namespace paceline::server {

class EndedPrograms {
 public:
  using Ended = std::function<void(NodeId node, const std::string& how)>;
  // `nodes`: of the run, 0 to one less. `ended` is called within `io`'s loop. Both, and `log`, outlive this.
  EndedPrograms(boost::asio::io_context& io, std::uint32_t nodes, const Log& log, Ended ended)
      : descriptor_(io), nodes_(nodes), log_(log), ended_(std::move(ended)) {}

  // Reads from `descriptor`, which is this one's from here on, until the other end is closed, or says what is no such
  // line; that is logged. Once. Errors: kInvalidArgument nothing can be waited for there.
  [[nodiscard]] Status open(int descriptor);

 private:
  void read();
  // Whether it was one.
  bool take(const std::string& line);

  boost::asio::posix::stream_descriptor descriptor_;
  const std::uint32_t nodes_;
  const Log& log_;
  const Ended ended_;
  std::string text_;  // that has come, and was not taken
};

}  // namespace paceline::server
