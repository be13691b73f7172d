#include "worker/train/inner_states.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>

#include "common/assert.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/hex.h"
#include "common/params/model_file.h"
#include "common/sync/engine_config.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

bool have_states(const TrainSection& train) {
  return train.has_inner_optimizer && state_vectors(train.inner_optimizer.kind) > 0;
}

// Under versions alone does a clock say what of a worker's is in the parameters.
bool carry(const RunConfig& config) {
  return config.exchange.fragments > 1 && !is_ever_eager(config.sync.stages, config.sync.apply);
}

// A tensor of one float, in the state that a worker has ended with.
constexpr const char* kLast = "last";

// Of how many rounds: when servers stop at a version a worker may have completed so many after it.
std::size_t states_kept(const RunConfig& config) {
  if (!carry(config)) return 2;
  return static_cast<std::size_t>(sync::largest_threshold(engine_config(config).policy).value()) + 2;
}

// "0.1-v000000000118": by name they are in the order of their versions.
std::string file_name(const std::string& worker, Version version) {
  char text[32];
  std::snprintf(text, sizeof text, "-v%012lld", static_cast<long long>(version.value));
  return worker + text;
}

// Tensors, one after the other.
Layout layout_of(const OptimizerImage& image, std::span<const float> carried, bool last) {
  Layout layout;
  for (const auto& [name, floats] : {std::pair("first", image.first.size()),
                                     {"second", image.second.size()},
                                     {kLast, std::int64_t{last}},
                                     {"carried", std::ssize(carried)}}) {
    if (floats > 0) PACELINE_ASSERT(layout.add(name, {floats}).is_ok(), "a vector's name");
  }
  return layout;
}

// In one block, as LocalSteps has them.
BlockRange vector_of(std::span<const float> values) {
  BlockPool pool(std::max<std::int64_t>(1, std::ssize(values)), 0);
  BlockRange vector(pool, std::ssize(values));
  vector.copy_from(0, values, pool);
  return vector;
}

}  // namespace

InnerStates::InnerStates(const RunConfig& config, NodeId node, const Layout& layout, Log log, Ticks (*now)())
    : config_(config),
      node_(node),
      log_(std::move(log)),
      now_(now),
      floats_(layout.size()),
      carries_(carry(config)),
      ends_ahead_(is_ever_eager(config.sync.stages, config.sync.apply)),
      goes_on_(carries_ || have_states(config.train)),
      keeps_(goes_on_ && (config.checkpoint.enabled() || config.run.max_seconds)),
      last_max_(states_kept(config)),
      whose_("inner state of " + hex(fingerprint(config, AgreedBy::kRun)) + " " + hex(layout.hash())),
      folder_(fs::path(config.run.out) / "inner_state"),
      workers_(config.cluster.threads_per_node) {}

std::string InnerStates::name(std::uint32_t thread) const { return to_string(WorkerId(node_, thread)); }

// The newest first.
std::vector<fs::path> InnerStates::files(std::uint32_t thread) const {
  std::vector<fs::path> found;
  std::error_code error;
  const std::string begin = name(thread) + "-v";
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.size() == file_name(name(thread), Version(0)).size() && file.starts_with(begin)) {
      found.push_back(it->path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void InnerStates::begin(std::uint32_t thread, Clock clock, Former former, LocalSteps& steps) {
  if (!goes_on_) return;
  Worker& worker = workers_[thread];
  std::deque<State> remembered = std::exchange(worker.last, {});
  std::optional<State> found;
  const Version wanted(clock.value);
  const std::string newest = file_name(name(thread), wanted);
  const bool starts_over = former == Former::kNone;
  bool is_newest = true;
  const auto was_ahead = [this](const State& state) { return ends_ahead_ && state.last; };
  for (const fs::path& file : files(thread)) {
    std::error_code ignored;
    if (!starts_over && !found && ends_ahead_ && file.filename() > newest) {
      found = read(thread, file);
      if (found && !was_ahead(*found)) found.reset();
    }
    if (starts_over || file.filename() > newest) {
      fs::remove(file, ignored);
    } else if (!found) {
      found = read(thread, file);
      is_newest = is_newest && found;
    }
  }
  for (State& state : remembered) {
    if (!starts_over && (state.version <= wanted || was_ahead(state)) &&
        (!found || state.version >= found->version)) {
      found = std::move(state);
    }
  }
  // After the round with which it ended in order nothing of it followed, though others went on.
  const bool was_last = found && found->last && is_newest;
  if (found && found->version != wanted && !was_last) {
    found->carried.clear();
    if (!have_states(config_.train)) found.reset();
  }
  if (found && !steps.resume(found->image, found->carried).is_ok()) found.reset();
  if (found) {
    log_.info("worker " + name(thread) + " goes on at clock " + to_string(clock) + " with " + goes_on_with() +
              " of version " + to_string(found->version));
  } else if (wanted > Version(0)) {
    log_.warn("worker " + name(thread) + " goes on at clock " + to_string(clock) +
              (have_states(config_.train) ? " with an inner optimizer that begins anew: "
                                          : " without what its last round had not sent: ") +
              (starts_over ? "it was lost or comes late, and what there is of it is of former rounds"
                           : "there is no state of it in " + folder_.string()));
  }
  if (!keeps_) return;
  keep(worker, state_at(wanted, steps));
  State& now = worker.last.back();
  now.written = found && found->version == wanted && found->written;
  if (found && found->last) write(thread, now);  // what follows makes that one its last no more
}

const char* InnerStates::goes_on_with() const {
  return have_states(config_.train) ? "its inner optimizer's state" : "what its last round had not sent";
}

void InnerStates::completed(std::uint32_t thread, Clock clock, const LocalSteps& steps) {
  if (!keeps_) return;
  Worker& worker = workers_[thread];
  keep(worker, state_at(Version(clock.next().value), steps));
  if (!may_be_saved(worker, worker.last.back().version)) return;
  write(thread, worker.last.back());
  worker.saved_at = now_();
}

void InnerStates::end(std::uint32_t thread, bool in_order) {
  std::deque<State>& last = workers_[thread].last;
  if (in_order && (carries_ || ends_ahead_) && !last.empty()) {
    last.back().last = true;
    last.back().written = false;
  }
  for (State& state : last) {
    if (!state.written) write(thread, state);
  }
}

bool InnerStates::may_be_saved(const Worker& worker, Version version) const {
  const CheckpointSection& checkpoint = config_.checkpoint;
  const auto is_multiple = [version](const std::optional<std::int64_t>& of) {
    return of && version.value % *of == 0;
  };
  if (checkpoint.keep_best > 0 && is_multiple(config_.train.eval_every_clocks)) return true;
  if (checkpoint.every) return !worker.saved_at || now_() - *worker.saved_at >= *checkpoint.every;
  return is_multiple(checkpoint.every_clocks);
}

InnerStates::State InnerStates::state_at(Version version, const LocalSteps& steps) const {
  return {version, steps.state(), carries_ ? steps.carried() : std::vector<float>()};
}

void InnerStates::keep(Worker& worker, State state) {
  worker.last.push_back(std::move(state));
  if (worker.last.size() > last_max_) worker.last.pop_front();
}

void InnerStates::write(std::uint32_t thread, State& state) {
  std::error_code error;
  fs::create_directories(folder_, error);
  ModelInfo info{whose_ + " " + name(thread), state.version, Revision(state.image.steps),
                 layout_of(state.image, state.carried, state.last)};
  std::vector<std::span<const float>> pieces;
  for (const BlockRange* vector : {&state.image.first, &state.image.second}) {
    for (std::int64_t i = 0; i < vector->block_count(); ++i) pieces.push_back(vector->block(i));
  }
  const float mark = 1.0F;
  if (state.last) pieces.emplace_back(&mark, 1);
  pieces.emplace_back(state.carried);
  const Status written = write_model_file(folder_ / file_name(name(thread), state.version), info, pieces);
  if (!written.is_ok()) {
    log_.warn("the inner optimizer's state of worker " + name(thread) +
              " is not saved: " + written.message());
    return;
  }
  state.written = true;
  std::vector<fs::path> old = files(thread);
  const auto kept = static_cast<std::size_t>(config_.checkpoint.keep + kLagMax) + last_max_ - 2;
  old.erase(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(std::min(kept, old.size())));
  for (const fs::path& file : old) fs::remove(file, error);
}

// Nothing where it is no state of this run's, or damaged.
std::optional<InnerStates::State> InnerStates::read(std::uint32_t thread, const fs::path& file) const {
  Result<ModelFile> model = read_model_file(file);
  Status status = model.status();
  const auto vectors = static_cast<std::int64_t>(state_vectors(config_.train.inner_optimizer.kind));
  const bool last =
      model.is_ok() && std::ranges::any_of(model->info.layout.tensors(),
                                           [](const Tensor& tensor) { return tensor.name == kLast; });
  if (model.is_ok() && (model->info.model != whose_ + " " + name(thread) ||
                        std::ssize(model->parameters) < vectors * floats_ + (last ? 1 : 0))) {
    status = invalid_argument(file.string() + " is of another run, worker or model");
  }
  if (!status.is_ok()) {
    log_.warn("passed over an inner optimizer's state: " + status.message());
    return std::nullopt;
  }
  const std::span<const float> values = model->parameters;
  const auto n = static_cast<std::size_t>(floats_);
  State state{model->info.version, {model->info.revision.value, {}, {}}, {}, last, true};
  if (vectors > 0) state.image.first = vector_of(values.first(n));
  if (vectors > 1) state.image.second = vector_of(values.subspan(n, n));
  const auto carried = values.subspan(static_cast<std::size_t>(vectors) * n + (last ? 1 : 0));
  state.carried.assign(carried.begin(), carried.end());
  return state;
}

}  // namespace paceline
