// paceline-server: the daemon of one shard; shard 0 is the authority. A list of its parts.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <vector>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/log/log.h"
#include "common/page/live_page.h"
#include "common/process/begin.h"
#include "common/process/descriptors.h"
#include "common/process/line_writer.h"
#include "common/process/stop_signals.h"
#include "common/wire/keys.h"
#include "common/wire/memory.h"
#include "common/wire/transport.h"
#include "server/peers/connections_max.h"
#include "server/run/ended_programs.h"
#include "server/run/resume.h"
#include "server/run/run_directory.h"
#include "server/run/status_display.h"
#include "server/server.h"

namespace paceline::server {
namespace {

int fail(const Status& status, StandardError& errors) {
  errors.stream() << "paceline-server: " << status.message() << '\n';
  const bool wrong_usage =
      status.code() == StatusCode::kFailedPrecondition || status.code() == StatusCode::kInvalidArgument;
  return wrong_usage ? kExitUsage : kExitFailedRun;
}

// Those that ask for the end (common/process/stop_signals.h).
void stop_on_signals(boost::asio::signal_set& signals, StopRequests& requests, Server& server) {
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    const StopRequests::Then then = requests.asked(number);
    if (then == StopRequests::Then::kEndAtOnce) std::_Exit(kExitFailedRun);
    if (then == StopRequests::Then::kStop) server.request_stop("stopped by a signal");
    stop_on_signals(signals, requests, server);
  });
}

void add(boost::asio::signal_set& set, const std::vector<int>& signals) {
  for (const int number : signals) set.add(number);
}

// SIGUSR1: why does it stand still? SIGUSR2: a checkpoint, now.
void answer_signals(boost::asio::signal_set& signals, Server& server) {
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    number == SIGUSR1 ? server.explain_waits() : server.save_checkpoint();
    answer_signals(signals, server);
  });
}

// That this server can have its keys: before an earlier run makes way for one that would not start.
Status check_keys(const RunConfig& config, ShardId shard, std::uint32_t replica) {
  const std::string& folder = config.security.keys;
  if (folder.empty()) return Status::ok();
  PACELINE_RETURN_IF_ERROR(wire::read_server_keys(folder, config.cluster.nodes).status());
  const bool asks_nobody = shard == kAuthority && replica == 0;
  return asks_nobody ? Status::ok() : wire::read_shard_keys(folder).status();
}

// The status with which a server ends that does not resume `config`'s run, though it was to; nullopt: the
// reason is another than what the run directory holds.
std::optional<int> why_not_resumed(const Result<Resumable>& resumable) {
  if (!resumable.is_ok()) return std::nullopt;
  switch (*resumable) {
    case Resumable::kNothingToResume:
    case Resumable::kModelAlone:
    case Resumable::kDamaged:
      return kExitNothingToResume;
    case Resumable::kOtherConfiguration:
      return kExitOtherConfiguration;
    case Resumable::kFinished:
      return kExitFinished;
    case Resumable::kCheckpoint:
      return std::nullopt;
  }
  return std::nullopt;
}

// --resume-or-start becomes one or the other. Of a run that has left neither checkpoint nor model nothing is gone on
// with, so it is begun anew; a model alone is refused as --resume refuses it.
void resume_or_start(DaemonOptions& given, const Result<Resumable>& resumable) {
  const bool starts = resumable.is_ok() && *resumable == Resumable::kNothingToResume;
  given.force = starts ? Force::kOnce : Force::kNo;
  given.resume = !starts;
}

Existing existing_for(Force force) {
  switch (force) {
    case Force::kNo:
      return Existing::kRefuse;
    case Force::kOnce:
      return Existing::kReplace;
    case Force::kTwice:
      return Existing::kReplaceFinished;
  }
  return Existing::kRefuse;
}

// About what the authority remembers of a worker and says to it at once: with very many, a decision is a wait
// for that memory.
constexpr std::size_t kBytesPerWorker = 1024;

// Catches what is sent between two servers of this process, one of which ends for the other to begin: else
// the system would do with it what it does with signals that nobody catches. A stop is the next one's.
class BetweenServers {
 public:
  explicit BetweenServers(const std::vector<int>& stops) {
    add(signals_, stops);
    signals_.async_wait([this](const boost::system::error_code& error, int) { stop_ = !error; });
  }
  bool is_to_stop() {
    io_.poll();
    return stop_;
  }

 private:
  boost::asio::io_context io_;
  boost::asio::signal_set signals_{io_};
  boost::asio::signal_set questions_{io_, SIGUSR1, SIGUSR2};
  bool stop_ = false;
};

// How long a replica that has come back so often does not ask to again: a connection that breaks again and
// again, or a machine that is too slow, must not quiesce the run each time.
Duration pause_before_return(Duration lease, int returns) {
  constexpr int kDoublings = 6;
  return returns == 0 ? Duration(0) : (1 << std::min(returns - 1, kDoublings)) * kLeasesBetween * lease;
}

// One server from its start to its end.
struct Ended {
  int exit_status = kExitOk;
  std::optional<RestartRequest> restart_request;
  bool has_started = true;
};

Ended serve(const RunConfig& config, ShardId shard, const Log& log, const ServerOptions& options,
            std::optional<int> ended_programs, const std::vector<int>& stops, BetweenServers& between,
            StandardError& errors) {
  wire::Context context;
  Server server(config, shard, context, log, options);
  EndedPrograms programs(server.io(), config.cluster.nodes, log,
                         [&](NodeId node, const std::string& how) { server.program_ended(node, how); });
  const Status reads = ended_programs ? programs.open(*ended_programs) : Status::ok();
  const Status started = reads.is_ok() ? server.start() : reads;
  if (!started.is_ok()) return {fail(started, errors), std::nullopt, /*has_started=*/false};
  boost::asio::signal_set signals(server.io());
  add(signals, stops);
  StopRequests requests;
  stop_on_signals(signals, requests, server);
  boost::asio::signal_set questions(server.io(), SIGUSR1, SIGUSR2);
  answer_signals(questions, server);
  if (between.is_to_stop()) server.request_stop("stopped by a signal");
  const Status ended = server.run();
  return {ended.is_ok() ? kExitOk : kExitFailedRun, server.restart_request()};
}

int server_main(int argc, char** argv) {
  begin_program();
  wire::keep_freed_memory();
  std::signal(SIGUSR1, SIG_IGN);  // until there is something to explain, or to save
  std::signal(SIGUSR2, SIG_IGN);
  const std::vector<int> stops = stop_signals();
  StandardError errors("paceline-server");
  const DaemonCommandLine command_line =
      parse_daemon_command_line(DaemonRole::kServer, argc, argv, std::cout, errors.stream());
  if (command_line.exit_status) return *command_line.exit_status;
  DaemonOptions given = command_line.options;
  std::vector<std::string> notes;
  const auto config = load_daemon_config(DaemonRole::kServer, given, &notes);
  // Once: the other daemons read the same.
  if (given.index == 0 && given.replica == 0) {
    for (const std::string& note : notes) errors.stream() << "paceline-server: " << note << '\n';
  }
  if (!config.is_ok()) {
    errors.stream() << "paceline-server: " << config.status().message() << '\n';
    return kExitUsage;
  }
  if (!config->cluster.huge_pages) wire::do_without_huge_pages();
  const ShardId shard(given.index);
  const std::string which =
      "shard " + to_string(shard) + " of " + std::to_string(config->cluster.nodes) + " nodes";
  const Status fits = check_descriptors(descriptors_needed(config->cluster, shard), which);
  if (!fits.is_ok()) return fail(fits, errors);
  keep_descriptors_for_files(kDescriptorsForFiles);
  if (const Status keys = check_keys(*config, shard, given.replica); !keys.is_ok()) return fail(keys, errors);
  if (config->cluster.huge_pages) {
    wire::prefer_huge_pages(kBytesPerWorker * config->cluster.cluster().workers());
  }

  const Result<Resumable> resumable = given.resume || given.or_start
                                          ? find_resumable(*config, shard)
                                          : Result<Resumable>(Resumable::kNothingToResume);
  if (given.or_start) resume_or_start(given, resumable);
  if (resumable.is_ok() && *resumable == Resumable::kFinished && config->cluster.replicas == 1) {
    (void)fail(ResumeChoice::open(*config).status(), errors);
    return kExitFinished;
  }
  const Existing existing = given.resume ? Existing::kContinue : existing_for(given.force);
  const auto lock = take_run_directory(*config, shard, existing, given.config_path);
  if (!lock.is_ok()) return fail(lock.status(), errors);
  const std::string name = (shard == kAuthority ? "paceline-server" : "paceline-server " + to_string(shard)) +
                           (given.replica > 0 ? " replica " + std::to_string(given.replica) : "");
  const auto log = Log::open(log_file(*config, shard), name, config->run.log_level,
                             given.resume ? Log::Begin::kAppend : Log::Begin::kTruncate, errors.writer());
  if (!log.is_ok()) return fail(log.status(), errors);
  if (!lock->warning.empty()) log->warn(lock->warning);

  const auto style = on_terminal() ? StatusDisplay::Style::kTerminal : StatusDisplay::Style::kLines;
  const LivePages pages{[out = config->run.out] { return live_page(out); },
                        [out = config->run.out] { return live_data(out); }};
  // A replica that resumes comes back to one that serves: the run goes on.
  using Role = ServerOptions::Role;
  const bool follows = config->cluster.replicas > 1 && (given.replica > 0 || given.resume);
  ServerOptions options{&errors.stream(),
                        given.resume && !follows,
                        style,
                        pages,
                        given.replica,
                        follows ? Role::kFollows : Role::kBegins,
                        /*expects_follower=*/true,
                        /*rejoins=*/false,
                        /*asks_after=*/Duration(0),
                        given.force != Force::kNo};
  BetweenServers between(stops);
  Ended ended = serve(*config, shard, *log, options, given.ended_programs, stops, between, errors);
  if (!ended.has_started && !given.resume) forget_run(*config, shard, given.config_path);
  if (!ended.has_started && given.resume && ended.exit_status == kExitUsage) {
    return why_not_resumed(resumable).value_or(ended.exit_status);
  }
  int returns = 0;
  while (const std::optional<RestartRequest> restart = ended.restart_request) {
    options.resume = restart->serves;
    options.role = options.resume ? Role::kGoesOn : Role::kFollows;
    options.expects_follower = restart->expects_follower;
    options.rejoins = restart->rejoins;
    options.asks_after =
        restart->has_followed ? pause_before_return(config->cluster.lease, returns++) : Duration(0);
    ended = serve(*config, shard, *log, options, given.ended_programs, stops, between, errors);
  }
  return ended.exit_status;
}

}  // namespace
}  // namespace paceline::server

int main(int argc, char** argv) { return paceline::server::server_main(argc, argv); }
