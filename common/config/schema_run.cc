// Rows of `run` and `cluster`: what the run is called, when it ends, who takes part and how they find each
// other.
#include <cctype>

#include "common/config/local_endpoint.h"
#include "common/config/mesh_address.h"
#include "common/config/schema.h"
#include "common/host_port.h"

namespace paceline::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::string check_name(const std::string& name) {
  if (name.empty() || name.size() > 100) return "wrong length";
  for (unsigned char c : name) {
    if (!std::isalnum(c) && c != '-' && c != '_' && c != '.')
      return "a character that does not belong in a name";
  }
  return "";
}

// "tcp://host:port" with a port from 1 to 65535 and an IPv6 host in brackets, or "ipc://path" within a Unix
// socket address (107 bytes).
std::string check_endpoint(const std::string& endpoint) {
  if (endpoint.starts_with("ipc://")) {
    const std::size_t length = endpoint.size() - 6;
    return length == 0 ? "no path" : length > 107 ? "a path longer than the 107 bytes of a Unix socket" : "";
  }
  if (!endpoint.starts_with("tcp://")) return "unknown transport";
  if (endpoint.rfind(':') <= 6) return "no host or no port";
  const HostPort parts = host_and_port_of_tcp(endpoint);
  if (parts.brackets && !is_ipv6_number(parts.host)) return "no IPv6 address in the brackets";
  if (!parts.brackets && parts.host.find(':') != std::string::npos) {
    return "an IPv6 address stands in brackets: tcp://[::1]:5555";
  }
  const std::string& port = parts.port;
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos) {
    return "not a port";
  }
  const int number = std::stoi(port);
  return number < 1 || number > 65535 ? "not a port" : "";
}

// "http://host:port".
std::string check_etcd(const std::string& endpoint) {
  if (!endpoint.starts_with("http://")) return "another scheme";
  return check_endpoint("tcp://" + endpoint.substr(7));
}

// "host:port" with a port up to 65535 (0: the system chooses one); an IPv6 host in brackets.
std::string check_http_address(const std::string& address) {
  if (address.find("://") != std::string::npos) return "an address with a scheme";
  const bool any_port = address.size() > 2 && address.ends_with(":0");
  return any_port ? "" : check_endpoint("tcp://" + address);
}

Domain<std::string> any_path() { return text("a path", wrong_path); }

std::string check_mesh_address(const std::string& address) {
  return parse_mesh_address(address).status().message();
}

}  // namespace

void add_run_and_cluster(Schema& schema) {
  schema.sections.push_back(
      {"run", "what this run is called, where it writes and when it ends", Scope::kOneDaemon});
  schema.sections.push_back({"cluster", "who takes part and how they find each other", Scope::kWholeRun});
  auto& keys = schema.keys;

  keys.push_back(
      row(PACELINE_FIELD(run.name), text("1 to 100 letters, digits, dashes, underscores or dots", check_name),
          Scope::kOneDaemon,
          {.effect = "Names the run's folder, runs/NAME, where scripts/run_local.sh is told no other.",
           .trade_off = "Reports call a run by its folder."}));
  keys.push_back(row(
      PACELINE_FIELD(run.seed), any_uint64(), Scope::kWholeRun,
      {.effect = "All randomness of the run is a function of it.",
       .trade_off = "Under bsp the same seed gives the same bits; compare policies over several seeds."}));
  keys.push_back(
      row(PACELINE_FIELD(run.out), any_path(), Scope::kOneDaemon,
          {.effect = "The run directory: logs, phases.csv, curve.csv, summary.json, the model.",
           .trade_off = "The daemons need one; scripts/run_local.sh sets it. A directory that holds a run "
                        "is refused without --force."}));
  keys.push_back(row(PACELINE_FIELD(run.max_seconds), or_null(duration(milliseconds(1), hours(24 * 365))),
                     Scope::kOneSession,
                     {.effect = "Stop gracefully after so much training, of all sessions together; null: no "
                                "limit. The state is saved, so that a resume with a larger one goes on.",
                      .trade_off = "A bound on cost; the learning-rate schedule does not know of it."}));
  keys.push_back(
      row(PACELINE_FIELD(run.target_accuracy), or_null(real({.low = 0, .high = 1, .open_low = true})),
          Scope::kOneSession,
          {.unit = "fraction",
           .effect = "Stop when an evaluation reaches this test accuracy; null: never.",
           .trade_off =
               "Saves what comes after it, as fine as train.eval_every_clocks, which it needs. One lucky "
               "evaluation is enough for it, so report --compare --target, which asks for the "
               "mean of three, wants runs without it."}));
  keys.push_back(
      row(PACELINE_FIELD(run.log_level), one_of({"debug", "info", "warn", "error"}), Scope::kOneDaemon,
          {.effect = "The least severe messages that reach the logs.",
           .trade_off =
               "debug adds every version and every worker that is held, which costs time in short steps."}));
  keys.push_back(
      row(PACELINE_FIELD(run.tensorboard), boolean(), Scope::kOneDaemon,
          {.effect = "Shard 0 writes TensorBoard's event files into the run directory: loss, accuracy, "
                     "threshold and LPR while the run goes, phases at its end.",
           .trade_off = "Some 150 bytes for each row of curve.csv, of which they are a copy."}));
  keys.push_back(
      row(PACELINE_FIELD(run.trace), boolean(), Scope::kOneDaemon,
          {.effect = "Record every phase of every worker and every decision of the server into trace.json, "
                     "for Perfetto and paceline explain.",
           .trade_off = "0.05 us of a training thread for each step; memory and disk as "
                        "run.trace_events says."}));
  keys.push_back(row(
      PACELINE_FIELD(run.trace_events), whole(1000, 10'000'000), Scope::kOneDaemon,
      {.unit = "events of all processes together",
       .effect = "How much a trace keeps: the newest; what is left out is counted in it.",
       .trade_off = "Some twelve are an iteration of one worker. Each takes up to 200 bytes of memory, and "
                    "on disk 150 bytes twice; explain takes 5 us and 0.3 kB to read one."}));
  keys.push_back(
      row(PACELINE_FIELD(run.http), or_null(text("\"host:port\"", check_http_address)), Scope::kOneDaemon,
          {.effect =
               "Where the authority shows the run while it goes, over HTTP: a page, /status (JSON), /metrics "
               "(Prometheus) and /healthz; null: nowhere.",
           .trade_off =
               "Costs the run nothing to speak of, but asks nobody who they are: anything but an address "
               "of this machine alone needs security.allow_insecure."}));
  keys.push_back(
      row(PACELINE_FIELD(run.straggler_warning),
          or_null(real({.low = 0, .high = 1, .open_low = true, .open_high = true})), Scope::kOneDaemon,
          {.unit = "score",
           .effect =
               "Warn in the log when a worker's speed falls below this share of the fastest worker's, or of "
               "its own best; null: never.",
           .trade_off = "0.5 is twice as slow. Where nodes are unequal on purpose, a value above their ratio "
                        "warns of what is known."}));

  keys.push_back(row(
      "cluster.nodes", [](auto& config) -> auto& { return config.cluster; }, node_counts(), Scope::kWholeRun,
      {.unit = "worker processes",
       .effect = "How many paceline-worker processes must join before training begins. {min: A, max: B}: "
                 "it begins when A have joined, node 0 among them, and others, up to B, may join later.",
       .trade_off = "More nodes give more gradients per second, and a larger effective mini-batch or "
                    "more staleness."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.threads_per_node), whole32(1, 256), Scope::kWholeRun,
          {.unit = "training threads",
           .effect = "Workers of each node; each computes on one core and has its own clock.",
           .trade_off = "Up to the cores of a node more is faster; each thread holds its own copy of the "
                        "parameters, gradient and optimizer state."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.shards), whole32(1, 64), Scope::kWholeRun,
          {.unit = "server processes",
           .effect = "How many servers the parameters are cut over; shard 0 is the authority.",
           .trade_off = "More shards spread network and optimizer work; each adds a message per exchange."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.endpoints),
      list_of(text("\"tcp://host:port\" or \"ipc://path\"", check_endpoint)), Scope::kOneDaemon,
      {.effect =
           "One address per shard: server k binds the k-th, everybody connects to it. With replicas those "
           "of the second replicas follow, in the same order. A name leads to its first IPv4 address, or to "
           "an "
           "IPv6 one where it has no other; an IPv6 address in numbers stands in brackets, tcp://[::1]:5555.",
       .trade_off = "tcp between machines; on one machine ipc needs no port and is no faster for bulk."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.mesh_address), or_null(text(kMeshAddressExpected, check_mesh_address)),
      Scope::kOneDaemon,
      {.effect =
           "Where the other nodes of an all-reduce, a pipeline or a norm group reach this one: an address "
           "or name of this machine, or an interface; the first free port of first to last. An IPv6 "
           "address in numbers stands in brackets. null: the address from which it reaches the server, "
           "and any free port.",
       .trade_off = "Sums on a network of their own, or ports that a firewall lets through. A node takes "
                    "one, and another before the first is free again when it meets others anew."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.replicas), whole32(1, 2), Scope::kOneDaemon,
      {.unit = "server processes of each shard",
       .effect = "With 2 a shard's second server (paceline-server --replica 1) has all that the first one "
                 "acknowledges, and serves in its place within about a lease once that is gone.",
       .trade_off = "Each gradient travels twice and each grant waits for the second server; without, a "
                    "lost server costs what came after the last checkpoint."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.etcd), list_of(text("\"http://host:port\"", check_etcd)), Scope::kOneDaemon,
          {.effect = "The members of an etcd, which decides which replica of a shard serves; none without "
                     "replicas.",
           .trade_off = "Three members, on other machines than the servers, go on where one is gone; one is "
                        "enough to try it. No TLS: keep them in a network that is trusted."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.etcd_prefix),
      text("1 to 100 letters, digits, dashes, underscores or dots", check_name), Scope::kWholeRun,
      {.effect =
           "The first part of this run's keys in etcd; the second is the fingerprint of the configuration.",
       .trade_off =
           "Runs of the same configuration and seed that share an etcd at the same time need one each: "
           "the second to begin is refused otherwise."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.start_timeout), duration(milliseconds(10), hours(24)), Scope::kOneDaemon,
          {.effect = "How long to wait for the nodes that training begins with before the run fails, naming "
                     "those missing.",
           .trade_off = "Long for slow job queues, short to notice a node that never starts."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.lease), duration(milliseconds(10), hours(24)), Scope::kOneDaemon,
          {.effect = "A node silent for longer is lost, and nobody waits for it any more.",
           .trade_off = "Short recovers sooner; too short loses a node to a pause of its machine. More than "
                        "2 x heartbeat."}));
  keys.push_back(row(PACELINE_FIELD(cluster.heartbeat), duration(milliseconds(1), hours(1)),
                     Scope::kOneDaemon,
                     {.effect = "How often each node and server says that it is alive.",
                      .trade_off = "Shorter allows a shorter lease; each is a message of some 50 bytes."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.reconnect_timeout), duration(Duration(0), hours(24)), Scope::kOneDaemon,
      {.effect =
           "How long a node whose servers are gone tries to join them again; 0ns: it ends at once. They "
           "come back by paceline-server --resume.",
       .trade_off = "Long leaves time to restart servers by hand; nodes of a run that nobody resumes hold "
                    "their machines for as long."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.frame_bytes), bytes(4, 1 << 20, 4), Scope::kOneDaemon,
          {.unit = "bytes",
           .effect = "Payload bytes per message when parameters and gradients are cut up, as float32; with "
                     "another encoding as many floats, in fewer bytes.",
           .trade_off = "256 KiB to 1 MiB is fastest; small frames cost headers, one large message costs "
                        "page faults and unbounded buffers."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.gradient_encoding), choice<Encoding>(), Scope::kWholeRun,
      {.effect = "How gradients travel: 4 bytes a value, 2 (fp16, bf16), 1 (int8), or 8 for each value kept "
                 "(top_k). int8 and top_k send later what they left out (error feedback).",
       .trade_off = "Fewer bytes where the network is the limit, for time to encode and a coarser gradient; "
                    "fp16 has more digits, bf16 the range of fp32."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.top_k_share), or_null(real({.low = 0, .high = 1, .open_low = true})),
          Scope::kWholeRun,
          {.unit = "fraction of the values of each frame",
           .effect = "How many values top_k keeps: the largest in magnitude. null with any other "
                     "gradient_encoding.",
           .trade_off = "0.01 is a fiftieth of fp32's bytes; the smaller, the later the rest comes. "
                        "From 0.5 on fp32 is smaller."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.parameter_encoding), choice<Encoding>(only_rounds), Scope::kWholeRun,
      {.effect = "How parameters travel to the nodes; evaluation and the model file see them as they are.",
       .trade_off = "Half the bytes, for parameters that are read with 11 (fp16) or 8 (bf16) binary digits; "
                    "the servers keep all 24."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.apply_threads), or_null(whole32(1, 256)), Scope::kOneDaemon,
          {.unit = "threads",
           .effect = "With how many a server applies a gradient to its shard; null: as many as it "
                     "has cores, at most 4; of more than 8 cores half, at most 8.",
           .trade_off = "Memory, not arithmetic, is the limit: few are enough. A shard of up to 16 "
                        "MB, or 1 MB with more than 8 cores, is applied by one anyway."}));
  keys.push_back(row(
      PACELINE_FIELD(cluster.shared_memory), choice<SharedMemory>(), Scope::kOneDaemon,
      {.effect = "Parameters and gradients between processes of one machine lie in memory that both see; "
                 "auto: where that can be had, and a model has 2,048 floats or more; on: or the run does not "
                 "begin; off: all are sent.",
       .trade_off = "Faster on one machine, of no use between machines. Gradients that wait for their turn "
                    "then lie in the worker's memory instead of the server's."}));
  keys.push_back(
      row(PACELINE_FIELD(cluster.huge_pages), boolean(), Scope::kOneDaemon,
          {.effect = "Whether this process takes huge pages, where the system gives them to those who ask.",
           .trade_off = "true: passes over large models are faster. false: for a guest whose page tables its "
                        "host shadows and whose kernel samples which pages are used (DAMON), where each "
                        "sample makes a step tens of milliseconds longer."}));
}

}  // namespace paceline::config
