#include "common/wire/zmq_gate.h"

#include <cerrno>
#include <string_view>
#include <utility>

#include "common/wire/zmq_curve.h"

namespace paceline::wire {
namespace {

// Frames of a request: version, request's number, domain, address, routing id, mechanism, key.
constexpr std::size_t kRequestFrames = 7;
constexpr std::size_t kRequestNumber = 1;
constexpr std::size_t kRequestDomain = 2;
constexpr std::size_t kRequestAddress = 3;
constexpr std::size_t kRequestMechanism = 5;
constexpr std::size_t kRequestKey = 6;
constexpr std::size_t kKeyBytes = kKeyCharacters / 5 * 4;

// A whole message; false at the end of the context.
bool receive_whole(zmq::socket_t& socket, std::vector<zmq::message_t>& frames) {
  frames.clear();
  for (bool more = true; more;) {
    zmq::message_t frame;
    try {
      if (!socket.recv(frame)) return false;
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;  // a signal's
      return false;
    }
    more = frame.more();
    frames.push_back(std::move(frame));
  }
  return true;
}

void send_all(zmq::socket_t& socket, const std::vector<std::string>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto flags = i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    bool sent = false;
    while (!sent) {
      try {
        sent = socket.send(zmq::buffer(frames[i]), flags).has_value();
      } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) throw;
      }
    }
  }
}

// Over tcp the address is one; over ipc it is "localhost:user:group:process".
std::string source_of(const std::string& address) {
  constexpr std::string_view kLocal = "localhost:";
  if (!address.starts_with(kLocal)) return address;
  return "user " + address.substr(kLocal.size(), address.find(':', kLocal.size()) - kLocal.size()) +
         " of this machine";
}

}  // namespace

std::string Admission::check(const std::string& address, const std::string& key) {
  const auto found = allowed_.find(key);
  if (found != allowed_.end()) return found->second;
  note(address, "its key " + key + " is not among those that are let in (security.keys)");
  return "";
}

void Admission::note(const std::string& source, const std::string& why) {
  const std::lock_guard lock(mutex_);
  denials_.add(source, why);
}

std::vector<std::string> Admission::due(Ticks now) {
  const std::lock_guard lock(mutex_);
  return denials_.due(now);
}

std::int64_t Admission::kept_out() {
  const std::lock_guard lock(mutex_);
  return denials_.total();
}

Gate::Gate(zmq::context_t& context) {
  zmq::socket_t socket(context, zmq::socket_type::rep);
  socket.set(zmq::sockopt::linger, 0);
  socket.bind("inproc://zeromq.zap.01");
  thread_ = std::thread([this, socket = std::move(socket)]() mutable { serve(std::move(socket)); });
}

std::string Gate::add(std::shared_ptr<Admission> admission) {
  const std::lock_guard lock(mutex_);
  std::string domain = "socket-" + std::to_string(next_++);
  admissions_.emplace(domain, std::move(admission));
  return domain;
}

void Gate::remove(const std::string& domain) {
  const std::lock_guard lock(mutex_);
  admissions_.erase(domain);
}

void Gate::serve(zmq::socket_t socket) {
  std::vector<zmq::message_t> request;
  try {
    while (receive_whole(socket, request)) {
      const std::string owner = check(request);
      const std::string number = request.size() > kRequestNumber ? request[kRequestNumber].to_string() : "";
      const bool lets_in = !owner.empty();
      send_all(socket,
               {"1.0", number, lets_in ? "200" : "400", lets_in ? "OK" : "not on the list", owner, ""});
    }
  } catch (const zmq::error_t&) {
    // The context ends. Without an answer nobody is let in (AcceptedConnections::watch).
  }
}

std::string Gate::check(const std::vector<zmq::message_t>& request) {
  if (request.size() != kRequestFrames || request[kRequestMechanism].to_string_view() != "CURVE" ||
      request[kRequestKey].size() != kKeyBytes) {
    return "";
  }
  std::shared_ptr<Admission> admission;
  {
    const std::lock_guard lock(mutex_);
    const auto known = admissions_.find(request[kRequestDomain].to_string());
    if (known == admissions_.end()) return "";
    admission = known->second;
  }
  return admission->check(source_of(request[kRequestAddress].to_string()),
                          key_text(request[kRequestKey].data()));
}

}  // namespace paceline::wire
