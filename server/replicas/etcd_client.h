// EtcdClient: asks etcd, one question after another, and gives up in time. Whoever asks need not know which
// of etcd's members answers: after one that does not, the next question goes to the next one.
//
//   ask ──> resolve ─> connect ─> POST ─> answer ──> done(answer)
//             └────────────┴────────┴───────┴── patience over, refused, cut off ──> done(why)
//
// Each question has a connection of its own: there is one every second or so. Only etcd_client.cc sees the
// HTTP of Boost.Beast. No TLS: etcd and its clients are to be in a network that is trusted.
//
// Thread: the one that runs `io`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "server/replicas/etcd.h"

namespace boost::asio {
class io_context;
}

namespace paceline::server {

class EtcdClient {
 public:
  using Done = std::function<void(Result<EtcdAnswer>)>;

  // `endpoints`: "http://HOST:PORT", of members of one etcd. Errors: kInvalidArgument none, or one that is
  // written otherwise.
  static Result<std::unique_ptr<EtcdClient>> make(boost::asio::io_context& io,
                                                  const std::vector<std::string>& endpoints);
  // What was asked is answered no more.
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;

  // Calls `done` once, later, on the loop. One question at a time. Errors, of which only the first two leave
  // it open whether etcd has done what it was asked: kDeadlineExceeded no answer within `patience`;
  // kUnavailable the connection ended, or etcd refuses; kInvalidArgument what came is no answer.
  void ask(const EtcdRequest& request, std::chrono::nanoseconds patience, Done done);

 private:
  struct Endpoint {
    std::string host;
    std::string port;
  };
  class Question;
  EtcdClient(boost::asio::io_context& io, std::vector<Endpoint> endpoints);
  static Result<Endpoint> endpoint_of(const std::string& text);

  boost::asio::io_context& io_;
  const std::vector<Endpoint> endpoints_;
  std::size_t asks_ = 0;  // of the endpoints
  std::shared_ptr<Question> question_;
};

}  // namespace paceline::server
