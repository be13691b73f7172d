#include "worker/allreduce/node_model.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/params/rates.h"

namespace paceline {
namespace {

// Of a run's state: the parameters, or one of the optimizer's vectors.
std::span<const float> vector_of(const RunState& state, std::int64_t size, int number) {
  return std::span(state.floats)
      .subspan(static_cast<std::size_t>(number * size), static_cast<std::size_t>(size));
}

// Parts of the node's vectors of so many floats, none in two.
std::vector<Range> in_run(const PlaceInRun& place, std::int64_t size, std::vector<Range> parts) {
  for (Range& part : parts) {
    const std::int64_t by = place.begin + (size == 0 ? 0 : part.begin / size) * (place.floats - size);
    part = {part.begin + by, part.end + by};
  }
  return parts;
}

}  // namespace

NodeModel::NodeModel(const RunConfig& config, const Layout& layout, PlaceInRun place,
                     std::shared_ptr<std::pmr::memory_resource> memory)
    : config_(config),
      layout_(layout),
      place_(place),
      pool_(std::max<std::int64_t>(1, layout.size()), /*idle_max=*/2, std::move(memory)),
      parameters_(pool_, layout.size()),
      optimizer_(config.train.optimizer, config.exchange.shard_optimizer ? 0 : layout.size(),
                 std::max<std::int64_t>(1, layout.size()),
                 FactorRanges(layout, config.train.optimizer,
                              {0, config.exchange.shard_optimizer ? 0 : layout.size()})) {
  if (config.exchange.shard_optimizer) sharded_.emplace(config.train.optimizer, layout);
}

Status NodeModel::take_parameters(const RunState& from, int vectors) {
  const std::int64_t size = layout_.size();
  if (std::ssize(from.floats) != size * (1 + vectors)) {
    return invalid_argument("the run's state of version " + to_string(from.version) + " has " +
                            std::to_string(from.floats.size()) + " floats, expected " +
                            std::to_string(1 + vectors) + " x " + std::to_string(size));
  }
  parameters_.copy_from(0, vector_of(from, size, 0), pool_);
  version_ = from.version;
  return Status::ok();
}

Status NodeModel::begin(const RunState& from, const Shares& shares) {
  if (!sharded_) return take_over(from);
  const int vectors = from.version == Version(0) ? 0 : state_vectors(config_.train.optimizer.kind);
  PACELINE_RETURN_IF_ERROR(take_parameters(from, vectors));
  const auto state = std::span(from.floats).subspan(static_cast<std::size_t>(layout_.size()));
  sharded_->begin(shares, state, from.version.value);
  return Status::ok();
}

Status NodeModel::take_over(const RunState& from) {
  const bool with_state = !sharded_ && from.version > Version(0);
  const int vectors = with_state ? state_vectors(config_.train.optimizer.kind) : 0;
  PACELINE_RETURN_IF_ERROR(take_parameters(from, vectors));
  if (vectors == 0) return Status::ok();
  const std::int64_t size = layout_.size();
  BlockPool pool(std::max<std::int64_t>(1, size), 0);
  OptimizerImage image{from.version.value, BlockRange(pool, size), {}};
  image.first.copy_from(0, vector_of(from, size, 1), pool);
  if (vectors > 1) {
    image.second = BlockRange(pool, size);
    image.second.copy_from(0, vector_of(from, size, 2), pool);
  }
  return optimizer_.restore(std::move(image));
}

void NodeModel::step(std::span<float> mean) {
  optimizer_.begin_step(rate_at(config_, version_));
  if (optimizer_.measures()) optimizer_.measure(floats_of(parameters_.block(0)), floats_of(mean));
  parameters_.rewrite(
      0, pool_, [&](std::span<const float> in, std::span<float> out) { optimizer_.apply(0, in, out, mean); });
  ++version_.value;
}

void NodeModel::skip_step() {
  const double rate = rate_at(config_, version_);
  if (sharded_) {
    sharded_->skip_step(rate);
  } else {
    optimizer_.begin_step(rate);
  }
  ++version_.value;
}

void NodeModel::begin_step(std::span<float> mean) {
  sharded_->begin_step(version_, rate_at(config_, version_), parameters_.block(0), mean);
}

void NodeModel::end_step(std::span<const float> parameters) {
  parameters_.rewrite(0, pool_, [&](std::span<const float>, std::span<float> out) {
    std::copy(parameters.begin(), parameters.end(), out.begin());
  });
  sharded_->end_step();
  ++version_.value;
}

void NodeModel::keep(Version version) {
  if (version != version_ || (!kept_.empty() && kept_.back().first == version)) return;
  kept_.emplace_back(version, parameters_);
  if (kept_.size() > kKeptMax) kept_.pop_front();
}

// What is asked for later is a later version.
std::optional<BlockRange> NodeModel::take_kept(Version version) {
  const auto kept =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == version; });
  if (kept == kept_.end() && version != version_) return std::nullopt;
  BlockRange found = kept == kept_.end() ? parameters_ : kept->second;
  std::erase_if(kept_, [&](const auto& one) { return one.first <= version; });
  return found;
}

std::function<std::shared_ptr<const RunState>()> NodeModel::state() const {
  if (!sharded_) {
    return [place = place_, version = version_, parameters = parameters_, image = optimizer_.image()] {
      auto state = std::make_shared<RunState>(RunState{version, {}});
      std::vector<Range> parts;
      for (const BlockRange* vector : {&parameters, &image.first, &image.second}) {
        if (vector->size() == 0) continue;
        const std::size_t begin = state->floats.size();
        state->floats.resize(begin + static_cast<std::size_t>(vector->size()));
        vector->copy_to(0, std::span(state->floats).subspan(begin));
        parts.push_back({static_cast<std::int64_t>(begin), std::ssize(state->floats)});
      }
      if (place.floats != parameters.size())
        state->parts = in_run(place, parameters.size(), std::move(parts));
      return state;
    };
  }
  // A share is small enough to be copied at once.
  auto state = std::make_shared<RunState>(RunState{version_, {}});
  const std::vector<Range> parts = sharded_->parts();
  for (const Range& part : parts) {
    const auto floats = parameters_.block(0).subspan(static_cast<std::size_t>(part.begin),
                                                     static_cast<std::size_t>(part.size()));
    state->floats.insert(state->floats.end(), floats.begin(), floats.end());
  }
  sharded_->append_state(version_, state->floats);
  std::vector<Range> of_state;
  for (std::int64_t vector = 0; vector <= state_vectors(config_.train.optimizer.kind); ++vector) {
    const std::int64_t begin = vector * layout_.size();
    for (const Range& part : parts) of_state.push_back({begin + part.begin, begin + part.end});
  }
  state->parts = in_run(place_, layout_.size(), std::move(of_state));
  return [state = std::shared_ptr<const RunState>(std::move(state))] { return state; };
}

void NodeModel::copy_vector(int number, std::span<float> out) const {
  const OptimizerImage image = optimizer_.image();
  const BlockRange& vector = number == 0 ? parameters_ : number == 1 ? image.first : image.second;
  vector.copy_to(0, out);
}

}  // namespace paceline
