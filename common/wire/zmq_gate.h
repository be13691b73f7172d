// Gate: who may connect to the sockets that have keys. ZeroMQ asks it about every connection, by ZAP
// (ZeroMQ's RFC 27), before it hands out anything of it: which socket's (the *domain*), from which address,
// and with which public key, whose owner the handshake has proved to be there. The answer names the owner,
// and ZeroMQ writes that name on each message of the connection (key_name() in zmq_accepted.cc).
//
// One of a context, on a thread of its own that waits in ZeroMQ's receive, so that a server's loop that is
// busy keeps nobody waiting at the door.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "common/instant.h"
#include "common/wire/denials.h"

namespace paceline::wire {

// Whom one socket lets in, and whom it did not. Thread: any.
class Admission {
 public:
  // `allowed`: as in ServerKeys.
  explicit Admission(std::map<std::string, std::string> allowed) : allowed_(std::move(allowed)) {}

  // Whose this key is; empty: nobody's who may come in, which is noted.
  std::string check(const std::string& address, const std::string& key);
  // What is to be said about those denied (denials.h), and how many there were.
  std::vector<std::string> due(Ticks now);
  std::int64_t kept_out();
  // Somebody was kept out for another reason than a key.
  void note(const std::string& source, const std::string& why);

 private:
  const std::map<std::string, std::string> allowed_;
  std::mutex mutex_;
  Denials denials_;
};

class Gate {
 public:
  // Throws zmq::error_t where somebody else answers in this context.
  explicit Gate(zmq::context_t& context);
  // Once the context was shut down.
  ~Gate() { thread_.join(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Begins to answer for a socket; returns the domain that the socket must be given. Thread: any.
  std::string add(std::shared_ptr<Admission> admission);
  void remove(const std::string& domain);

 private:
  void serve(zmq::socket_t socket);
  std::string check(const std::vector<zmq::message_t>& request);

  std::mutex mutex_;
  std::int64_t next_ = 0;
  std::map<std::string, std::shared_ptr<Admission>> admissions_;  // by domain
  std::thread thread_;
};

}  // namespace paceline::wire
