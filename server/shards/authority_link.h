// AuthorityLink: at another shard, its connection to the authority: joining it, joining it again over another
// connection where the one before broke while both live, and what the two say to each other
// (server/peers/server_channels.h). An authority that does not come back ends this server.
//
// Thread: the server's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/pause.h"
#include "common/traffic.h"
#include "common/wire/transport.h"
#include "server/loop/server_setup.h"
#include "server/peers/server_channels.h"
#include "server/replicas/replica_role.h"
#include "server/run/end_of_run.h"
#include "server/run/run_clock.h"
#include "server/run/run_generation.h"

namespace paceline::server {

class AuthorityLink {
 public:
  using Handler = std::function<void(Result<wire::Message>)>;
  // What on_message() leaves to others of a message.
  struct Received {
    std::optional<wire::ShardWelcome> welcome;  // the first one: the authority has let this shard in
    std::optional<wire::Message> message;       // for the shard, or that the run is over
    std::optional<Status> refused;              // a refusal that is not fatal
    bool ack_due = false;                       // for acknowledge(): that it was heard is to be said now
  };

  // All outlive this.
  AuthorityLink(boost::asio::io_context& io, const ServerSetup& setup, const RunClock& clock, EndOfRun& end,
                ReplicaRole& role, ServerChannels& channels, const RunGeneration& generation);

  // `handler` is called with what comes, which is to be given to on_message() first. `context` outlives this.
  void use(wire::Context& context, Handler handler, std::vector<wire::IntactFile> intact);
  // For the first time. Errors: of reading keys, and of the socket.
  [[nodiscard]] Status connect();
  // In another replica's place, whose connections had lower numbers than term << 32.
  void take_over(std::uint64_t term);

  [[nodiscard]] Received on_message(Result<wire::Message> message);
  // What on_message() has left is done. `moved`: by this shard, as a heartbeat says it.
  void acknowledge(const Received& what, const Traffic& moved);

  void send(wire::Message message);
  // What release() has given: leaves now.
  void send_released_output(wire::Message message);
  void heartbeat(const Traffic& moved);
  // Ends the loop with `why`, whether the authority hears it or not.
  void leave_with(const Status& why);
  // Whoever stops all servers at once (a service manager, a batch system) wants what the authority's stop
  // saves, for which this shard has to be there: the authority is to stop the run. One that is gone, too, is
  // silent for a lease at most.
  void ask_to_stop(const std::string& reason);
  // The run is over, and the authority has this shard's last word.
  void end_if_acked();
  // In each tick: it is joined again, or the loop ends. `reconnects_within`: without replicas.
  void check(Ticks now, std::chrono::nanoseconds reconnects_within);
  void discount_pause(const Pause& pause) { seen_ = pause.discounted(seen_); }
  void close();

  // It has answered, to this replica of the shard or to another one.
  bool is_welcomed() const { return welcomed_; }
  void set_welcomed() { welcomed_ = true; }
  Ticks seen() const { return seen_; }
  // At which of its endpoints it is looked for.
  std::string endpoint() const;

 private:
  // The connection broke, and the authority has not welcomed this shard over another one.
  struct Broken {
    int attempts = 0;        // connections that were tried
    Ticks asked;             // when the last of them was made
    bool connected = false;  // with the last of them; else what still comes counts for nothing
  };
  void on_broken(std::int64_t connection);
  void on_denied(const Status& why);
  void find_serving(Ticks now);
  void connect_again();
  void connect_in(std::chrono::milliseconds pause);
  // Whether it is the first.
  [[nodiscard]] bool on_welcome(const wire::ShardWelcome& welcome);
  void on_ack(std::int64_t count);
  [[nodiscard]] std::optional<Status> on_error(const wire::Error& error);

  boost::asio::io_context& io_;
  const ServerSetup& setup_;
  const RunClock& clock_;
  EndOfRun& end_;
  ReplicaRole& role_;
  ServerChannels& channels_;
  const RunGeneration& generation_;
  wire::Context* context_ = nullptr;
  Handler handler_;
  std::vector<wire::IntactFile> intact_;  // of a run that is resumed: the shard's own files
  std::unique_ptr<wire::DealerSocket> dealer_;
  std::shared_ptr<const wire::ClientKeys> keys_;  // where the run has keys
  boost::asio::steady_timer timer_;               // for another connection
  bool welcomed_ = false;
  std::int64_t connection_ = 0;  // how many there have been
  std::optional<Broken> broken_;
  std::int64_t breaks_ = 0;
  std::uint32_t at_ = 0;
  Ticks seen_;
};

}  // namespace paceline::server
