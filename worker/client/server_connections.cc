#include "worker/client/server_connections.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/ticks.h"
#include "common/wire/segment_sizes.h"

namespace paceline {

using Queued = wire::DealerSocket::Queued;

namespace {

// libzmq 4.3.4 loses the memory of a message of which a part has come where its socket is closed while its
// thread still reads what was sent: a goodbye is read by then.
constexpr std::chrono::nanoseconds kGoodbyeIsRead = std::chrono::milliseconds(5);

auto of_timer(std::chrono::nanoseconds delay) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(delay);
}

Lost lost_with(const ServerLink& link) {
  return link.shard == kAuthority ? Lost::kTheAuthority : Lost::kShard;
}

}  // namespace

ServerConnections::ServerConnections(Client client, const std::vector<ShardPart>& parts, Events events)
    : client_(client),
      cluster_(client.options.cluster),
      log_(client.options.log),
      events_(std::move(events)),
      joining_(links_, client.state, client.options.lost, client.options.last_generation, cluster_),
      waits_(client.waits),
      timer_(client.io) {
  for (std::uint32_t k = 0; k < parts.size(); ++k) {
    links_.push_back(
        {ShardId(k), cluster_.endpoints_of(k), parts[k].whole, parts[k], nullptr, 0, false, {}, {}});
  }
}

Result<std::uint64_t> ServerConnections::await_joined() {
  const std::chrono::nanoseconds timeout = joining_.timeout(cluster_);
  PACELINE_ASSIGN_OR_RETURN(const auto servers, client_.state.await_welcomes(timeout));
  PACELINE_RETURN_IF_ERROR(joining_.check_joined(servers, client_.options.node, timeout));
  return servers.front().generation;
}

void ServerConnections::connect_all() {
  for (ServerLink& link : links_) {
    if (Status asked = connect(link); !asked.is_ok()) return events_.failed(std::move(asked));
  }
  waits_.begin(client_.options.clock());
  beat();
}

Status ServerConnections::connect(ServerLink& link) {
  wire::TransportOptions transport;
  transport.memory = client_.options.memory;
  transport.their_memory_bytes_max = wire::parameter_segment_bytes(link.range.size());
  transport.pin = client_.options.pin;
  transport.client_keys = client_.options.keys;
  transport.on_denied = [this, &link](const Status& why) { denied(link, why); };
  transport.on_unsent = [this, &link](const wire::PeerId&, const Status& why) {
    if (!link.broken) lose(link, Status(why).with_context("to " + link.name()));
  };
  if (!link.answers) link.at = (link.at + 1) % link.endpoints.size();
  link.answers = link.endpoints.size() == 1;
  const std::int64_t number = ++link.connection;
  transport.on_broken = [this, &link, number] {
    boost::asio::post(client_.io, [this, &link, number] { broke(link, number, "it broke"); });
  };
  auto socket = wire::DealerSocket::connect(
      client_.context, client_.io, link.endpoints[link.at], transport,
      [this, &link](Result<wire::Message> message) { events_.came(link, std::move(message)); });
  if (!socket.is_ok()) return Status(socket.status()).with_context(link.name());
  link.socket = std::move(socket).value();
  return ask(link);
}

Status ServerConnections::ask(ServerLink& link) {
  joining_.asked(link, client_.options.clock());
  return link.socket->send(
      {wire::Join{wire::kProtocolVersion, client_.options.node, client_.options.incarnation,
                  cluster_.threads_per_node, client_.options.config_fingerprint, client_.layout.hash(),
                  client_.layout.tensors(), client_.options.data_fingerprint, client_.options.last_generation,
                  link.generation, client_.unacked.gradients(), link.connection, client_.options.settings},
       {}});
}

// What is due of a join that has not been answered, or not well.
Status ServerConnections::ask_if_due(ServerLink& link) {
  if (!client_.state.closed().is_ok()) return Status::ok();
  switch (joining_.due(link, client_.options.clock())) {
    case Joining::Due::kNothing:
      return Status::ok();
    case Joining::Due::kJoin:
      return ask(link);
    case Joining::Due::kConnection:
      // A replica that has not answered may have let this node in, and hears of it again.
      if (link.answers) (void)link.socket->send({wire::Leave{"it joins again over another connection"}, {}});
      link.socket->close();
      return connect(link);
  }
  return Status::ok();
}

// The node keeps trying. What a server has said itself says more.
void ServerConnections::log_unanswered(ServerLink& link) {
  const bool waits =
      client_.state.closed().is_ok() && !link.welcomed() && !link.broken && !link.reconnects_at;
  if (!waits || link.last_received > link.asked) return;
  const auto notice = link.unanswered.check(link.endpoints[link.at], link.asked, client_.options.clock());
  if (!notice) return;
  client_.state.stands(link.shard, {0, notice->why});
  log_.write(notice->may_be_usual ? LogLevel::kInfo : LogLevel::kWarn,
             link.name() + " does not answer: " + notice->why + "; this node keeps trying");
}

// One that welcomed this node once is as good as its lease.
void ServerConnections::denied(ServerLink& link, const Status& why) {
  Status denied = Status(why).with_context(link.name());
  if (link.welcomed()) return log_.warn(denied.message());
  if (!joining_.keeps_asking()) return events_.failed(std::move(denied));
  joining_.turned_away(link, why.message(), client_.options.clock());
}

// Every cluster.heartbeat: says that we live, and looks who does not.
void ServerConnections::beat() {
  waits_.discount_pause_of(client_.options.clock(), links_);
  if (client_.state.closed().is_ok()) {  // else nobody waits any more
    if (Status answered = waits_.check(client_.options.clock(), links_); !answered.is_ok())
      return events_.owes(answered);
    waits_.announce(client_.options.clock(), links_);
  }
  for (ServerLink& link : links_) {
    if (Status alive = link.check_silence(client_.options.clock(), cluster_.lease); !alive.is_ok()) {
      if (joining_.keeps_asking()) {
        joining_.turned_away(link, alive.message(), client_.options.clock());
      } else if (waits_.needs(link.shard) && !tries_other_replica(link, client_.options.clock())) {
        return lose(link, alive);
      }
    } else if (link.broken && link.endpoints.size() > 1 &&
               !tries_other_replica(link, client_.options.clock())) {
      return lose(link, deadline_exceeded(link.name() + ": no replica of it answers"));
    }
    log_unanswered(link);
    joining_.give_up_if_silent(link, client_.options.clock());
    if (Status asked = ask_if_due(link); !asked.is_ok()) return events_.failed(std::move(asked));
    // A full queue is no reason to give up: what fills it will show as silence soon enough.
    if (!link.welcomed() || link.broken || !link.socket || client_.state.left()) continue;
    const bool with_traffic = link.shard == kAuthority && client_.options.heartbeat;
    (void)link.socket->send({with_traffic ? client_.options.heartbeat() : wire::Heartbeat{}, {}});
  }
  timer_.expires_after(of_timer(cluster_.heartbeat));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !shut_) beat();
  });
}

void ServerConnections::send_to_authority(const wire::Body& body) {
  ServerLink& authority = links_[kAuthority.value];
  if (authority.socket == nullptr || authority.broken) return;
  if (Status sent = authority.send({body, {}}); !sent.is_ok()) lose(authority, sent);
}

void ServerConnections::send_leave(const wire::Leave& leave) {
  for (ServerLink& link : links_) {
    if (link.socket != nullptr) (void)link.socket->send({leave, {}});
  }
  left_at_ = steady_now();
  const ServerLink& authority = links_[kAuthority.value];
  if (authority.broken || authority.socket == nullptr) client_.state.expect_no_end();
}

Status ServerConnections::welcome(ServerLink& link, const wire::Welcome& welcome) {
  PACELINE_RETURN_IF_ERROR(link.check(welcome));
  if (link.welcomed()) return link.broken ? back(link, welcome) : Status::ok();
  link.broken.reset();
  PACELINE_RETURN_IF_ERROR(confirm_sharing(link));
  events_.joined(link, welcome);
  const bool is_ready = joining_.welcomed(link, welcome, client_.options.clock());
  if (!is_ready) return Status::ok();
  client_.unacked.ready();
  ServerLink& authority = links_[kAuthority.value];
  return authority.broken ? Status::ok() : authority.send({wire::NodeReady{}, {}});
}

bool ServerConnections::others_lack_parameters(const ServerLink& link) const {
  return std::any_of(links_.begin(), links_.end(),
                     [&](const ServerLink& other) { return &other != &link && !other.initialized; });
}

// Whether its payloads and ours are shared is known with its first message.
Status ServerConnections::confirm_sharing(ServerLink& link) {
  if (cluster_.shared_memory == SharedMemory::kOff) return Status::ok();
  const Status shares = link.socket->shares_memory();
  if (!shares.is_ok() && cluster_.shared_memory == SharedMemory::kOn) {
    return Status(shares).with_context("cluster.shared_memory is on, but no memory can be shared");
  }
  if (shares.is_ok()) shares_memory_ = true;
  if (link.broken) return Status::ok();  // it is in the log
  const std::string& unshared = client_.options.unshared;
  log_.info("node " + to_string(client_.options.node) +
            (shares.is_ok() ? " shares memory with " + link.name()
                            : " shares no memory with " + link.name() + ": " +
                                  (unshared.empty() ? shares.message() : unshared)));
  return Status::ok();
}

Status ServerConnections::refused(ServerLink& link, const wire::Error& error) {
  if (error.fatal) return refused_for_good(link, error);
  const bool elsewhere = link.endpoints.size() > 1 && error.code == StatusCode::kUnavailable;
  if (elsewhere && (link.broken || !link.welcomed())) {  // another replica serves, or is to
    link.answers = false;
    if (link.broken) {
      broke(link, link.connection, error.message);
      return Status::ok();
    }
  }
  if (joining_.waits_its_turn(link, error, log_, client_.options.clock())) return Status::ok();
  // What it cannot read it may wait for, as for a report, and to say it again would not mend it.
  if (error.code == StatusCode::kInvalidArgument && waits_.needs(link.shard)) {
    events_.owes(invalid_argument(link.name() + " cannot read what this node sends: " + error.message));
    return Status::ok();
  }
  log_.warn(link.name() + " refused a message: " + error.message);
  return Status::ok();
}

// What may pass does so before all servers have welcomed this node; afterwards it says that the server is
// another process than the one that did, or has lost this node.
Status ServerConnections::refused_for_good(ServerLink& link, const wire::Error& error) {
  Status refusal(error.code, "refuses us: " + error.message);
  if (!waits_.needs(link.shard)) return Status::ok();
  if (joining_.may_pass(link, error)) {
    joining_.turned_away(link, refusal.message(), client_.options.clock());
    return Status::ok();
  }
  const bool unknown = error.code == StatusCode::kNotFound;  // it knows this node, but not this connection
  if (joining_.over() && unknown && !link.broken) {
    broke(link, link.connection, refusal.message());
    return Status::ok();
  }
  if (!joining_.over() || (error.code != StatusCode::kFailedPrecondition && !unknown)) return refusal;
  lose(link, std::move(refusal).with_context(link.name()));
  return Status::ok();
}

void ServerConnections::ended(ServerLink& link, const Status& how) {
  if (joining_.keeps_asking()) return joining_.turned_away(link, how.message(), client_.options.clock());
  events_.lost(Lost::kShard, how);
}

void ServerConnections::lose(const ServerLink& link, const Status& why) {
  if (link.shard == kAuthority) client_.state.expect_no_end();
  events_.lost(lost_with(link), why);
}

void ServerConnections::shut_down() {
  shut_ = true;
  timer_.cancel();
  const auto since_goodbye = left_at_ ? steady_now() - *left_at_ : kGoodbyeIsRead;
  if (since_goodbye < kGoodbyeIsRead) {
    timer_.expires_after(of_timer(kGoodbyeIsRead - since_goodbye));
    return timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) shut_down();
    });
  }
  // After the end of the run the servers are going: a heartbeat on its way to one that has gone would hold
  // up this process's end for the linger time. A goodbye before it must still leave, but not to one that
  // has not come back.
  const bool over = client_.state.run_over().has_value() && !client_.state.left();
  for (ServerLink& link : links_) {
    const bool gone = joining_.keeps_asking() && !link.welcomed();
    if (link.socket) link.socket->close(over || gone ? Queued::kIsDropped : Queued::kIsSent);
    link.socket.reset();
  }
  client_.io.stop();
}

}  // namespace paceline
