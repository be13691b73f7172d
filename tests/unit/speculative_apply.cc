// The shard beside a reference that knows nothing of blocks, pieces or preparing: whole vectors and the
// optimizer's plain loop.
#include "tests/unit/speculative_apply.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/encode/encode.h"
#include "common/params/schedule.h"
#include "common/random.h"
#include "tests/unit/optimizer_plain.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

constexpr int kWalkSteps = 400;
constexpr std::size_t kHeldMax = 3;

class PreparingWalk {
 public:
  explicit PreparingWalk(std::uint64_t seed)
      : random_(seed, Stream::kTest),
        floats_(1 + static_cast<std::int64_t>(below(40))),
        settings_(random_settings()),
        shard_(ready_shard(settings_.cluster, floats_, 1.0F, settings_)),
        plain_(settings_.optimizer, static_cast<std::size_t>(floats_)),
        expected_(static_cast<std::size_t>(floats_), 1.0F),
        senders_(settings_.cluster.workers()) {}

  SpeculativeApplyWalk run() {
    for (int i = 0; i < kWalkSteps && walk_.violation.empty(); ++i) {
      step();
      check();
    }
    walk_.committed = shard_.next().committed();
    return std::move(walk_);
  }

 private:
  // A worker: its whole gradients that have not been decided, and the one it is sending.
  struct Whole {
    Clock clock;
    std::vector<float> values;
    std::int64_t samples = 1;
    Version computed_version{};
    std::int64_t updates_known = 0;
    std::optional<std::int64_t> not_finite{};  // the first of these values
  };
  struct Sender {
    std::int64_t clock = 0;
    std::vector<Whole> whole;
    std::optional<Whole> sending;
    std::int64_t sent = 0;  // floats of it, from its end
    std::int64_t late_below = 0;
  };
  struct Reply {
    Snapshot state;
    std::vector<float> values;
  };

  std::uint64_t below(std::uint64_t bound) { return random_.next_below(bound); }
  bool chance(int per_cent) { return below(100) < static_cast<std::uint64_t>(per_cent); }
  void fault(const std::string& what) {
    if (walk_.violation.empty()) walk_.violation = what;
  }
  void expect_ok(const Status& status) {
    if (!status.is_ok()) fault(status.message());
  }

  ShardSettings random_settings() {
    ShardSettings settings =
        settings_of({1 + static_cast<std::uint32_t>(below(3)), 1 + static_cast<std::uint32_t>(below(2))},
                    1 + static_cast<std::int64_t>(below(8)), kHeldMax);
    const bool eager = chance(40);
    settings.apply = eager ? ApplyMode::kEager : ApplyMode::kVersioned;
    settings.combine = eager || chance(50) ? CombineMode::kEach : CombineMode::kMean;
    const OptimizerKind kinds[] = {OptimizerKind::kSgd, OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                   OptimizerKind::kAdam};
    settings.optimizer.kind = kinds[below(4)];
    settings.optimizer.lr = 0.1;
    settings.optimizer.weight_decay = chance(50) ? 0.01 : 0.0;
    settings.optimizer.schedule.kind = chance(50) ? ScheduleKind::kCosine : ScheduleKind::kConstant;
    settings.planned_versions = 30;
    settings.turns_eager = !eager && chance(30);
    settings.rate_scale = settings.turns_eager && chance(50) ? 3.0 : 1.0;
    if (chance(40)) settings.optimizer.staleness = StalenessScaling::kInverse;
    settings.apply_threads = 1 + below(2);
    settings.apply_alone_floats = chance(50) ? 0 : 10;
    const Encoding encodings[] = {Encoding::kFp32, Encoding::kFp32, Encoding::kFp16, Encoding::kBf16};
    settings.gradient_encoding = encodings[below(4)];
    return settings;
  }

  void step() {
    const auto what = below(100);
    if (what < 50) {
      send_piece(static_cast<std::uint32_t>(below(senders_.size())));
    } else if (what < 75) {
      for (auto units = below(6); units > 0 && !older_is_held(); --units) {
        if (shard_.prepare_next()) ++walk_.prepared;
      }
      for (auto pieces = below(3); pieces > 0; --pieces) shard_.check_next_finite();
    } else if (what < 90) {
      decide();
    } else if (what < 91) {
      withdraw();
    } else if (what < 95) {
      lose();
    } else if (what < 96) {
      discard();
      chance(50) ? reconnect() : check_image();
    } else if (what < 98) {
      // As store/reply_window.h has it: one state beside the current one.
      reply_.reset();
      if (chance(70)) reply_ = Reply{shard_.now(), expected_};
    } else if (!retained_.empty()) {
      shard_.release(retained_.begin()->first);
      retained_.erase(retained_.begin());
    }
  }

  bool older_is_held() const { return reply_ && reply_->state.revision != shard_.now().revision; }

  void send_piece(std::uint32_t rank) {
    Sender& sender = senders_[rank];
    if (!sender.sending) {
      if (sender.whole.size() >= kHeldMax) return;
      Whole begun{Clock(sender.clock), {}, 1 + static_cast<std::int64_t>(chance(80) ? 0 : below(3))};
      const auto lacks = static_cast<std::int64_t>(below(4));
      begun.computed_version = Version(std::max<std::int64_t>(shard_.now().version.value - lacks, 0));
      begun.updates_known = std::max<std::int64_t>(shard_.now().revision.value - lacks, 0);
      for (std::int64_t i = 0; i < floats_; ++i) {
        begun.values.push_back(static_cast<float>(random_.next_normal()));
      }
      if (chance(5)) spoil(begun);
      // What the shard gets of them; each float by itself, however the gradient is cut.
      const wire::Payload reported = encoded(begun.values);
      expect_ok(decode(reported.encoding, reported.bytes(), begun.values));
      sender.sending = std::move(begun);
      sender.sent = 0;
    }
    const Whole& gradient = *sender.sending;
    const auto left = static_cast<std::uint64_t>(floats_ - sender.sent);
    const std::int64_t count =
        chance(30) ? floats_ - sender.sent : static_cast<std::int64_t>(1 + below(left));
    const bool last = sender.sent + count == floats_;
    const std::int64_t offset = floats_ - sender.sent - count;
    const auto first = gradient.values.begin() + offset;
    auto push = push_of(settings_.cluster.worker_at(Rank(rank)), gradient.clock.value, offset, last,
                        gradient.samples);
    push.computed_version = gradient.computed_version;
    push.own_updates = gradient.updates_known / 3;  // of these updates, some are its own
    push.computed_revision = Revision(gradient.updates_known - push.own_updates);
    const auto prepare = chance(50) && !older_is_held() ? Shard::Prepare::kWhole : Shard::Prepare::kNothing;
    const auto arrived = shard_.push(push, encoded({first, first + count}), prepare);
    expect_ok(arrived.status());
    sender.sent += count;
    if (!last || !arrived.is_ok()) return;
    Whole whole = *std::exchange(sender.sending, std::nullopt);
    ++sender.clock;
    if (whole.clock.value < sender.late_below) {
      ++walk_.late;
      if (const std::string& reported = (*arrived)->fault; !reported.empty())
        fault("said of what is late: " + reported);
      return;
    }
    expect_fault(whole, (*arrived)->fault);
    if (whole.not_finite) return shard_.discard(push.worker, push.clock);  // as the authority has it
    sender.whole.push_back(std::move(whole));
  }

  // Some of its values are not finite.
  void spoil(Whole& gradient) {
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      const auto at = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(floats_)));
      gradient.values[static_cast<std::size_t>(at)] = chance(50) ? NAN : INFINITY;
      gradient.not_finite = std::min(at, gradient.not_finite.value_or(at));
    }
  }

  void expect_fault(const Whole& gradient, const std::string& got) {
    std::string expected;
    if (gradient.not_finite) {  // an infinity may have become a NaN on its way
      const bool nan = got.find(" is nan ") != std::string::npos;
      expected = std::string("gradient of dense.weight is ") + (nan ? "nan" : "infinite") + " at [" +
                 std::to_string(*gradient.not_finite) + "]";
    }
    if (got != expected)
      fault("a whole gradient is reported with '" + got + "', expected '" + expected + "'");
    if (gradient.not_finite) ++walk_.not_finite;
  }

  wire::Payload encoded(const std::vector<float>& values) {
    const Encoder encoder{settings_.gradient_encoding};
    const auto bytes = std::make_shared<std::vector<std::byte>>(encoder.bytes_of(std::ssize(values)));
    encoder.encode(values, *bytes);
    return {bytes, bytes->data(), bytes->size(), settings_.gradient_encoding, std::ssize(values)};
  }

  // A node whose connection broke says the rest of what it was sending anew, and what it lent is its own
  // again.
  void reconnect() {
    const NodeId node(static_cast<std::uint32_t>(below(settings_.cluster.nodes)));
    shard_.reconnected(node);
    for (std::uint32_t t = 0; t < settings_.cluster.threads_per_node; ++t) {
      senders_[settings_.cluster.rank_of({node, t}).value].sending.reset();
    }
  }

  void check_image() {
    const ShardImage image = shard_.image();
    check_state(image.optimizer, "an image");
    Shard other(ShardId(0), {0, floats_}, layout_of(floats_), settings_);
    expect_ok(other.restore(image));
    check_state(other.image().optimizer, "the image of a shard that goes on from one");
    check_content(other.now(), expected_, "a shard that goes on from an image");
  }

  void check_state(const OptimizerImage& image, const std::string& what) {
    const OptimizerKind kind = settings_.optimizer.kind;
    const auto same = [](const BlockRange& got, const std::vector<float>& expected) {
      const std::vector<float> values = values_of(got);
      return values.size() == expected.size() &&
             std::memcmp(values.data(), expected.data(), expected.size() * sizeof(float)) == 0;
    };
    if (kind != OptimizerKind::kSgd && (image.steps != plain_.steps || !same(image.first, plain_.first))) {
      fault(what + " has another first vector than the plain loop, or other steps");
    }
    if (kind == OptimizerKind::kAdam && !same(image.second, plain_.second)) {
      fault(what + " has another second vector than the plain loop");
    }
  }

  // A node dies half-way; what it says next, as another would, begins the same clock with other values, and
  // mostly comes whole at once, before much else is prepared.
  void lose() {
    const NodeId node(static_cast<std::uint32_t>(below(settings_.cluster.nodes)));
    shard_.drop_partial(node);
    for (std::uint32_t t = 0; t < settings_.cluster.threads_per_node; ++t) {
      const std::uint32_t rank = settings_.cluster.rank_of({node, t}).value;
      Sender& sender = senders_[rank];
      if (!std::exchange(sender.sending, std::nullopt) || chance(30)) continue;
      do send_piece(rank);
      while (sender.sending);
    }
  }

  void withdraw() {
    const auto rank = static_cast<std::uint32_t>(below(senders_.size()));
    Sender& sender = senders_[rank];
    if (!sender.sending || sender.sent == 0) return;
    expect_ok(shard_.withdraw({settings_.cluster.worker_at(Rank(rank)), sender.sending->clock}));
    sender.sending.reset();
    ++sender.clock;
  }

  void discard() {
    const auto rank = static_cast<std::uint32_t>(below(senders_.size()));
    std::vector<Whole>& whole = senders_[rank].whole;
    if (whole.empty() || chance(30)) {  // the one that is being sent, or comes next
      const std::int64_t clock = senders_[rank].clock;
      senders_[rank].late_below = clock + 1;
      return shard_.discard(settings_.cluster.worker_at(Rank(rank)), Clock(clock));
    }
    const auto which = static_cast<std::ptrdiff_t>(below(whole.size()));
    shard_.discard(settings_.cluster.worker_at(Rank(rank)), whole[static_cast<std::size_t>(which)].clock);
    whole.erase(whole.begin() + which);
  }

  // What is to be expected: versioned, the gradients of the version's clock in worker order; eager, any one.
  std::vector<std::pair<std::uint32_t, std::size_t>> choose() {
    std::vector<std::pair<std::uint32_t, std::size_t>> all;  // rank, place in `whole`
    std::vector<std::pair<std::uint32_t, std::size_t>> due;
    bool complete = true;
    for (std::uint32_t rank = 0; rank < senders_.size(); ++rank) {
      const Sender& sender = senders_[rank];
      for (std::size_t k = 0; k < sender.whole.size(); ++k) {
        all.emplace_back(rank, k);
        if (sender.whole[k].clock.value == shard_.now().version.value) due.emplace_back(rank, k);
      }
      complete = complete && sender.clock > shard_.now().version.value;
    }
    if (all.empty()) return {};
    if (settings_.apply == ApplyMode::kEager) return {all[below(all.size())]};
    if (chance(80)) return complete ? due : decltype(due)();
    // Some, in any order: as if others had been lost, and as no authority would.
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[below(i)]);
    all.resize(1 + below(all.size()));
    return all;
  }

  // As the authority says it: with the decisions from here on.
  void turn_eager() {
    settings_.apply = ApplyMode::kEager;
    settings_.combine = CombineMode::kEach;
    settings_.rate_scale = 1.0;
    turned_ = true;
  }

  void decide() {
    if (settings_.turns_eager && !turned_ && chance(15)) turn_eager();
    const auto chosen = choose();
    const bool version_passes = settings_.apply == ApplyMode::kVersioned ? !chosen.empty() : chance(30);
    const std::int64_t version = shard_.now().version.value + (version_passes || chance(5) ? 1 : 0);
    wire::ApplyDecision decision = decision_of(sequence_++, {}, version);
    decision.revision_after = shard_.now().revision;
    decision.combine = settings_.combine == CombineMode::kMean ? wire::Combine::kMean : wire::Combine::kEach;
    decision.apply = settings_.apply;
    decision.rate_scale = settings_.rate_scale;
    decision.learning_rate =
        chance(90) ? learning_rate(settings_.optimizer, shard_.now().version, settings_.planned_versions) *
                         settings_.rate_scale
                   : 0.01;
    std::vector<Whole> gradients;
    for (const auto& [rank, k] : chosen) {
      const Whole& gradient = senders_[rank].whole[k];
      decision.contributions.push_back({settings_.cluster.worker_at(Rank(rank)), gradient.clock,
                                        gradient.samples,
                                        staleness_of(gradient, decision.revision_after.value++)});
      gradients.push_back(gradient);
    }
    if (chance(20)) decision.skipped = skipped_beside(decision.contributions);
    decision.retain = retained_.size() < kRetainedMax && !retained_.contains(Version(version)) && chance(20);
    for (const wire::Contribution& c : decision.contributions) {
      std::erase_if(senders_[settings_.cluster.rank_of(c.worker).value].whole,
                    [&c](const Whole& whole) { return whole.clock == c.clock; });
    }
    expect_ok(shard_.apply(decision));
    apply_plainly(decision, gradients);
    if (decision.retain) retained_[decision.version_after] = expected_;
  }

  // As the authority has it, if it heard the same; now and then it did not.
  std::int64_t staleness_of(const Whole& gradient, std::int64_t revision) {
    if (chance(5)) return static_cast<std::int64_t>(below(4));
    const std::int64_t missed = settings_.combine == CombineMode::kMean
                                    ? gradient.clock.value - gradient.computed_version.value
                                    : revision - gradient.updates_known;
    return std::max<std::int64_t>(missed, 0);
  }

  // Workers that contribute nothing, as after an iteration without a gradient: the next clock may have
  // theirs.
  std::vector<wire::Contribution> skipped_beside(const std::vector<wire::Contribution>& contributions) {
    std::vector<wire::Contribution> skipped;
    for (std::uint32_t rank = 0; rank < senders_.size(); ++rank) {
      const WorkerId worker = settings_.cluster.worker_at(Rank(rank));
      const bool contributes =
          std::any_of(contributions.begin(), contributions.end(),
                      [worker](const wire::Contribution& c) { return c.worker == worker; });
      if (!contributes) skipped.push_back({worker, Clock(shard_.now().version.value), 0});
    }
    return skipped;
  }

  void apply_plainly(const wire::ApplyDecision& decision, const std::vector<Whole>& gradients) {
    if (gradients.empty()) return;
    const auto divisor = [&](std::size_t k) {
      const bool inverse = settings_.optimizer.staleness == StalenessScaling::kInverse;
      return inverse ? static_cast<double>(std::max<std::int64_t>(decision.contributions[k].staleness, 1))
                     : 1.0;
    };
    if (decision.combine == wire::Combine::kEach) {
      for (std::size_t k = 0; k < gradients.size(); ++k) {
        plain_.apply(expected_, gradients[k].values, decision.learning_rate / divisor(k));
      }
      return;
    }
    std::int64_t samples = 0;
    for (const Whole& gradient : gradients) samples += gradient.samples;
    std::vector<float> mean(expected_.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      for (std::size_t k = 0; k < gradients.size(); ++k) {
        const auto weight = static_cast<float>(static_cast<double>(gradients[k].samples) / divisor(k));
        const float weighted = weight * gradients[k].values[i];
        mean[i] = k == 0 ? weighted : mean[i] + weighted;
      }
      mean[i] *= 1.0F / static_cast<float>(samples);
    }
    plain_.apply(expected_, mean, decision.learning_rate);
  }

  void check_content(const Snapshot& state, const std::vector<float>& expected, const std::string& what) {
    const std::vector<float> values = values_of(state.blocks);
    if (std::memcmp(values.data(), expected.data(), expected.size() * sizeof(float)) != 0) {
      fault(what + " differs from the plain loop after decision " + std::to_string(sequence_ - 1));
    }
  }

  void check() {
    std::size_t held = 0;
    for (const Sender& sender : senders_) held += sender.whole.size() + (sender.sending ? 1 : 0);
    if (shard_.gradients_held() != held) {
      fault(std::to_string(shard_.gradients_held()) + " gradients are held, expected " +
            std::to_string(held));
    }
    check_content(shard_.now(), expected_, "the current state");
    for (const auto& [version, values] : retained_) {
      check_content(*shard_.retained(version), values, "retained version " + to_string(version));
    }
    if (reply_) check_content(reply_->state, reply_->values, "a reply");
    const auto blocks = static_cast<std::size_t>(shard_.now().blocks.block_count());
    if (shard_.blocks_in_use() > blocks * (2 + retained_.size())) {
      fault(std::to_string(shard_.blocks_in_use()) + " blocks are alive, of a shard of " +
            std::to_string(blocks) + " with " + std::to_string(retained_.size()) + " retained");
    }
  }

  CounterRandom random_;
  const std::int64_t floats_;
  ShardSettings settings_;  // apply and combine: of the next decision
  bool turned_ = false;
  Shard shard_;
  testing::PlainOptimizer plain_;
  std::vector<float> expected_;  // what the current state holds
  std::vector<Sender> senders_;  // by rank
  std::optional<Reply> reply_;
  std::map<Version, std::vector<float>> retained_;
  std::int64_t sequence_ = 0;
  SpeculativeApplyWalk walk_;
};

}  // namespace

SpeculativeApplyWalk walk_speculative_apply(std::uint64_t seed) {
  SpeculativeApplyWalk walk = PreparingWalk(seed).run();
  if (!walk.violation.empty()) {
    walk.violation = "next state, seed " + std::to_string(seed) + ": " + walk.violation;
  }
  return walk;
}

}  // namespace paceline::server
