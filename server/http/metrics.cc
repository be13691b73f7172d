#include "server/http/metrics.h"

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace paceline::server {
namespace {

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

using Labels = std::initializer_list<std::pair<const char*, std::string>>;

// Families one after another; a sample belongs to the family begun last.
class Exposition {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }

  void sample(double value, Labels labels = {}) {
    text_ += name_;
    char between = '{';
    for (const auto& [label, of] : labels) {
      text_ += between + std::string(label) + "=\"" + escaped(of) + "\"";
      between = ',';
    }
    if (labels.size() > 0) text_ += '}';
    text_ += " " + number(value) + "\n";
  }

  void gauge(const char* name, const char* help, std::optional<double> value) {
    if (!value) return;
    family(name, "gauge", help);
    sample(*value);
  }
  void counter(const char* name, const char* help, std::int64_t value) {
    family(name, "counter", help);
    sample(static_cast<double>(value));
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
  }

  const char* name_ = "";
  std::string text_;
};

void add_run(Exposition& out, const RunStatus& s) {
  out.family("paceline_run_info", "gauge", "The run that this is about; always 1.");
  out.sample(1, {{"run", s.run}, {"policy", s.policy}});
  out.family("paceline_run_state", "gauge", "1 for the state that the run is in, 0 for the others.");
  for (const char* state : {"resuming", "gathering", "training", "ending", "closing", "filing", "over"}) {
    out.sample(s.state == state ? 1 : 0, {{"state", state}});
  }
  out.gauge("paceline_training_seconds", "Time of training since the first grant.", s.seconds);
  out.gauge("paceline_time_left_seconds", "Estimated time until training is over.", s.seconds_left);
  out.gauge("paceline_done_ratio", "Share of the iterations, or of run.max_seconds, that is done.", s.done);
  out.gauge("paceline_iterations_planned", "Iterations that the run is to apply.",
            static_cast<double>(s.iterations_total));
  out.counter("paceline_iterations_total", "Gradients applied to the global parameters.",
              s.iterations - s.before.iterations);
  out.counter("paceline_iterations_skipped_total", "Iterations without a gradient, since it was not finite.",
              s.skipped - s.before.skipped);
  out.counter("paceline_iterations_dropped_total", "Gradients that came too late to count (policy backup).",
              s.dropped - s.before.dropped);
  out.counter("paceline_iterations_lost_total", "Iterations begun by a worker that was lost.",
              s.iterations_lost - s.before.iterations_lost);
  out.counter("paceline_samples_total", "Samples in the iterations that workers have reported.", s.samples);
  out.gauge("paceline_parameter_version", "Version of the global parameters: clocks that are complete.",
            static_cast<double>(s.version.value));
}

void add_synchronisation(Exposition& out, const RunStatus& s) {
  out.gauge("paceline_clock_min", "Smallest clock of the live workers.",
            static_cast<double>(s.min_clock.value));
  out.gauge("paceline_clock_max", "Largest clock of the live workers.",
            static_cast<double>(s.max_clock.value));
  out.gauge("paceline_clock_gap", "Largest less smallest clock of the live workers.",
            static_cast<double>(s.gap().value));
  out.gauge("paceline_threshold", "How far a worker may lead the slowest when it is granted an iteration.",
            s.threshold.is_infinite() ? std::numeric_limits<double>::infinity()
                                      : static_cast<double>(s.threshold.value()));
  const auto lpr = s.lpr ? std::optional<double>(*s.lpr / 100) : std::nullopt;
  out.gauge("paceline_lpr_ratio", "Learning progress ratio of the last window; above 0 is progress.", lpr);
  out.gauge(
      "paceline_train_loss",
      "Loss of the mini-batches of the last window, or between the last evaluations, mean over samples.",
      s.train_loss);
  out.gauge("paceline_train_accuracy_ratio",
            "Accuracy on the mini-batches of the last window, or between the last evaluations.",
            s.train_accuracy);
  out.gauge("paceline_test_loss", "Loss on the test set at the last evaluation, mean over samples.",
            s.test_loss);
  out.gauge("paceline_test_accuracy_ratio", "Accuracy on the test set at the last evaluation.",
            s.test_accuracy);
  out.gauge("paceline_waits", "How many things the run waits for now; /status has them in words.",
            static_cast<double>(s.waits_total));
}

void add_members(Exposition& out, const char* what, const std::vector<MemberStatus>& members) {
  const bool nodes = std::string_view(what) == "node";
  out.family(nodes ? "paceline_node_up" : "paceline_shard_up", "gauge", "1 while it takes part in the run.");
  for (const MemberStatus& member : members)
    out.sample(member.up ? 1 : 0, {{what, std::to_string(member.number)}});
  out.family(nodes ? "paceline_node_silence_seconds" : "paceline_shard_silence_seconds", "gauge",
             "Time since its last message.");
  for (const MemberStatus& member : members) {
    if (member.silent_seconds) out.sample(*member.silent_seconds, {{what, std::to_string(member.number)}});
  }
}

void add_workers(Exposition& out, const RunStatus& s) {
  const auto each = [&](const char* name, const char* help, auto value_of) {
    out.family(name, "gauge", help);
    for (const WorkerStatus& worker : s.workers) {
      const std::optional<double> value = value_of(worker);
      if (!value) continue;
      out.sample(*value, {{"node", to_string(worker.worker.node)}, {"worker", to_string(worker.worker)}});
    }
  };
  using Value = std::optional<double>;
  each("paceline_worker_clock", "Iterations that the worker has completed.",
       [](const WorkerStatus& w) -> Value { return static_cast<double>(w.clock.value); });
  each("paceline_worker_held", "1 while the threshold holds the worker.",
       [](const WorkerStatus& w) -> Value { return w.state == "held" ? 1.0 : 0.0; });
  each("paceline_worker_iteration_seconds", "Mean time that its last iterations computed.",
       [](const WorkerStatus& w) { return w.score ? Value(w.score->iteration_seconds) : std::nullopt; });
  out.family("paceline_worker_phase_seconds_total", "counter",
             "Time that the worker's process has spent in the phase so far.");
  for (const WorkerStatus& worker : s.workers) {
    for (std::size_t i = 0; worker.times && i < kPhaseCount; ++i) {
      out.sample(static_cast<double>(worker.times->phases[i]) / 1e9, {{"node", to_string(worker.worker.node)},
                                                                      {"worker", to_string(worker.worker)},
                                                                      {"phase", kPhaseNames[i]}});
    }
  }
  each("paceline_worker_relative_speed_ratio", "Its speed against the fastest worker's; low is a straggler.",
       [](const WorkerStatus& w) { return w.score ? Value(w.score->relative) : std::nullopt; });
  each("paceline_worker_own_speed_ratio",
       "Its speed against its own best; low is a worker that is disturbed.",
       [](const WorkerStatus& w) { return w.score ? Value(w.score->individual) : std::nullopt; });
}

// Of this process, which is shard 0's.
void add_server(Exposition& out, const ServerCounts& counts) {
  const auto one = [&](const char* name, const char* help, std::int64_t value) {
    out.family(name, "counter", help);
    out.sample(static_cast<double>(value), {{"shard", "0"}});
  };
  one("paceline_server_pushed_bytes_total", "Bytes of gradients given to ZeroMQ.", counts.bytes_pushed);
  one("paceline_server_pulled_bytes_total", "Bytes of parameters given to ZeroMQ.", counts.bytes_pulled);
  one("paceline_server_shared_bytes_total", "Bytes of payload in shared memory.", counts.bytes_shared);
  one("paceline_server_received_messages_total", "Messages received.", counts.messages_received);
  one("paceline_server_malformed_messages_total", "Messages refused by their form.", counts.malformed);
}

}  // namespace

std::string metrics_text(const RunStatus& status, double age_seconds) {
  Exposition out;
  add_run(out, status);
  add_synchronisation(out, status);
  out.counter("paceline_nodes_lost_total", "Nodes that were lost.",
              status.nodes_lost - status.before.nodes_lost);
  add_members(out, "node", status.nodes);
  add_members(out, "shard", status.shards);
  add_workers(out, status);
  add_server(out, status.server);
  out.gauge("paceline_status_age_seconds", "How long ago the server's loop made this.", age_seconds);
  return out.take();
}

}  // namespace paceline::server
