// Server: one `paceline-server` as an object. It holds one shard of the parameters; shard 0 is the authority
// too. Several can live in one process, each run() on a thread of its own: that is what makes the tests
// cheap.
//
//   wire::Context context;
//   Server server(config, ShardId(0), context, log, {});
//   PACELINE_RETURN_IF_ERROR(server.start());   // bound: server.endpoint() is where nodes connect
//   return server.run();                        // until the run is over
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/log/log.h"
#include "common/status.h"
#include "common/wire/transport.h"
#include "server/authority/reconfigure.h"
#include "server/http/live_state.h"
#include "server/run/status_display.h"

namespace boost::asio {
class io_context;
}

namespace paceline::server {

struct ServerOptions {
  // Where the authority shows how the run goes; nullptr: nowhere. Outlives the server.
  std::ostream* progress = nullptr;
  // Go on with the run in config.run.out, from its newest whole checkpoint.
  bool resume = false;
  StatusDisplay::Style progress_style = StatusDisplay::Style::kLines;
  // What run.http shows besides numbers.
  LivePages pages = {};
  // Which of the shard's replicas (cluster.replicas), and what it is to the other one: it begins the run, it
  // follows the one that serves, or goes on serving after a reconfiguration, with a follower or without.
  // config.run.out is another folder for each.
  enum class Role { kBegins, kFollows, kGoesOn };
  std::uint32_t replica = 0;
  Role role = Role::kBegins;
  bool expects_follower = true;
  // One that follows: it was lost to the one that serves, and comes back; and how long it does not ask to.
  bool rejoins = false;
  Duration asks_after{0};
  // It begins in the place of an earlier run that has not ended (--force).
  bool replaces = false;
};

class Server {
 public:
  // `config` has been validated, and config.run.out is a folder that exists. `context` outlives the server.
  Server(const RunConfig& config, ShardId shard, wire::Context& context, Log log, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds cluster.endpoints[shard] (its own, of a second replica) and, for another shard than 0, connects to
  // the authority. Call once, before run(). Errors: kUnavailable port in use or curve.csv cannot be written,
  // or run.http cannot be had; kInvalidArgument not an endpoint; to resume, kFailedPrecondition nothing to
  // resume from, and why not, kUnavailable the run directory cannot be read or written.
  [[nodiscard]] Status start();
  // The bound endpoint, with the port that the system chose where "*" was asked for. After start().
  std::string endpoint() const;

  // Serves until the run is over. OK only when the run ended with status "ok". The thread that calls it is
  // the server's thread; everything happens on it.
  [[nodiscard]] Status run();

  // Asks for the orderly end: at the authority the run stops with its model kept, status "stopped"; another
  // shard has the authority do so. Thread: any; not from a signal handler.
  void request_stop(const std::string& reason);
  // The program that was to be that node has ended, and how ("status 1"): where training has not begun, and the node
  // has not joined, nobody waits for it. Of other nodes their connections say what became of them. Thread: any.
  void program_ended(NodeId node, const std::string& how);
  // Another shard than the authority goes without waiting for the run's end, which thereby fails: as one that
  // can serve no longer. Thread: any.
  void leave(const std::string& reason);

  // After run(): whether this server is to be made anew, and as what: the servers of the run go on by
  // themselves, as a new generation, or this one was lost to the one that serves.
  std::optional<RestartRequest> restart_request() const;

  // Writes into the log, as warnings, what the server waits for now and why it does not come. Thread: any;
  // not from a signal handler.
  void explain_waits();

  // Has the run save a checkpoint of its next version, whatever its configuration says, and go on. Another
  // shard than the authority says that that one is to be asked. Thread: any; not from a signal handler.
  void save_checkpoint();

  // Where the authority answers HTTP, with the port that the system chose; empty without run.http. After
  // start().
  std::string http_address() const;

  // Of the blocks that decisions have rewritten, those that were prepared while the gradients arrived
  // (store/speculative_apply.h). After run().
  std::int64_t blocks_prepared() const;

  // The loop that run() runs, for signals and the like.
  boost::asio::io_context& io();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::server
