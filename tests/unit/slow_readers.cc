// The service, its nodes and the authority as one random walk. The two pushers' gradients are all 1 at rate
// 1, so that every element of revision r is -r: a piece says which state it is made of. They come in frames,
// and are decided when they are whole, as predicted or not, so that all else comes while something is
// prepared.
#include "tests/unit/slow_readers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/encode/encode.h"
#include "common/random.h"
#include "server/service/shard_service.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

constexpr std::int64_t kBlockFloats = 300;  // more than the transport copies
constexpr std::uint64_t kBlocksMax = 5;
constexpr int kSteps = 500;

// What is queued for each node stays until that node reads it.
class SlowOutbox final : public Outbox {
 public:
  void send(Peer to, wire::Message message) override {
    if (to.is_node()) return queues[to.number].push_back(std::move(message));
    const auto* const arrived = std::get_if<wire::GradientArrived>(&message.body);
    if (arrived != nullptr) announced.insert({arrived->worker, arrived->clock});
  }
  // Fails now and then.
  void disconnect(NodeId node) override {
    if (++disconnects % 3 == 0) queues[node.value].clear();
  }

  int disconnects = 0;
  std::set<std::pair<WorkerId, Clock>> announced;  // whole gradients that the authority has been told of
  std::map<std::uint32_t, std::deque<wire::Message>> queues;
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed, Stream::kTest) {
    config_.cluster.nodes = 2 + static_cast<std::uint32_t>(below(4));
    config_.cluster.threads_per_node = 1 + static_cast<std::uint32_t>(below(2));
    config_.cluster.frame_bytes = kBlockFloats * static_cast<std::int64_t>(sizeof(float));
    eager_ = below(2) == 0;
    // In half the bytes the small whole numbers of this walk are exact.
    const Encoding encodings[] = {Encoding::kFp32, Encoding::kFp32, Encoding::kFp16, Encoding::kBf16};
    config_.cluster.parameter_encoding = encodings[below(4)];
    config_.sync.policy = eager_ ? PolicyKind::kAsp : PolicyKind::kSsp;
    config_.sync.threshold = 3;
    config_.sync.combine = CombineMode::kEach;
    config_.train.optimizer.lr = 1.0;
    config_.sync.apply = eager_ ? ApplyMode::kEager : ApplyMode::kVersioned;
    floats_ = kBlockFloats * (1 + static_cast<std::int64_t>(below(kBlocksMax))) - 1;
    service_.emplace(ShardId(0), config_, outbox_, log_, [this] { left_ = true; });
    nodes_.resize(config_.cluster.nodes);
    for (Pusher& pusher : pushers_) pusher.left = floats_;
  }

  std::string run() {
    const auto opened = service_->open(layout_of(floats_));
    if (!opened.is_ok()) return opened.status().message();
    send(Peer::of(NodeId(0)), wire::InitialParameters{0, true},
         std::vector<float>(static_cast<std::size_t>(floats_)));
    for (int i = 0; i < kSteps && wrong_.empty(); ++i) {
      step();
      check_memory();
    }
    settle();
    return wrong_;
  }
  std::int64_t prepared() const { return service_->shard()->next().committed(); }

 private:
  struct Request {
    Version min_version;
    bool exact = false;
    std::int64_t received = 0;  // floats
  };
  struct Node {
    bool lost = false;
    Revision has = kNoRevision;
    std::map<std::uint64_t, Request> open;
  };

  // What it has pushed and the authority has not decided.
  struct Pusher {
    WorkerId worker;
    Clock clock{};              // of what it is pushing
    std::int64_t left = 0;      // floats of that
    std::deque<Clock> whole{};  // before it
  };

  std::uint64_t below(std::uint64_t bound) { return random_.next_below(bound); }

  void fault(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }
  void send(Peer from, wire::Body body, std::vector<float> values = {}) {
    const Status status = service_->handle(from, {std::move(body), payload_of(std::move(values))});
    if (!status.is_ok()) fault(status.message());
  }
  void wake() {
    left_ = false;
    const Status status = service_->on_replies_sent();
    if (!status.is_ok()) fault(status.message());
  }

  void step() {
    const auto what = below(100);
    const auto node = static_cast<std::uint32_t>(below(nodes_.size()));
    if (what < 28) {
      push_piece(pushers_[below(2)]);
    } else if (what < 38) {
      service_->work_ahead();
    } else if (what < 47) {
      decide();
    } else if (what < 63) {
      pull(node);
    } else if (what < 67) {
      pull_exact(node);
    } else if (what < 71) {
      release();
    } else if (what < 93) {
      read(node);
    } else if (what < 99) {
      if (left_) wake();
    } else if (node != 0 && below(4) == 0) {
      lose(node);
    }
    tick(std::chrono::milliseconds(below(100)));
  }

  // Whom the shard finds stuck, the authority of this walk keeps.
  void tick(std::chrono::nanoseconds later) {
    now_ = now_ + later;
    service_->tick(now_);
  }

  // The next frame, from the gradient's end to its begin, of at most two gradients that are not decided. They
  // are stamped as those of a worker that goes on with the newest version.
  void push_piece(Pusher& pusher) {
    if (nodes_[pusher.worker.node.value].lost || pusher.whole.size() >= 2) return;
    if (pusher.left == floats_) {
      // What is not announced yet has brought no grant of a further iteration.
      if (!pusher.whole.empty() && !is_announced(pusher, pusher.whole.back())) return;
      pusher.clock = std::max(pusher.clock, Clock(version_));
    }
    const std::int64_t begin = (pusher.left - 1) / kBlockFloats * kBlockFloats;
    send(Peer::of(pusher.worker.node), push_of(pusher.worker, pusher.clock.value, begin, begin == 0),
         std::vector<float>(static_cast<std::size_t>(pusher.left - begin), 1));
    pusher.left = begin;
    if (begin > 0) return;
    pusher.left = floats_;
    pusher.whole.push_back(pusher.clock);
    pusher.clock = pusher.clock.next();
  }

  bool is_announced(const Pusher& pusher, Clock clock) const {
    return outbox_.announced.contains({pusher.worker, clock});
  }

  // The authority applies whole gradients, at most one of each pusher: eager one, versioned mostly both. At
  // most two versions are retained as far as it knows.
  void decide() {
    if (on_their_way() >= 2) return;  // the shard has them wait, and the pushers with them
    std::vector<Pusher*> due;
    for (Pusher& pusher : pushers_) {
      if (!pusher.whole.empty() && is_announced(pusher, pusher.whole.front())) due.push_back(&pusher);
    }
    if (due.empty()) return;
    if (due.size() == 2 && (eager_ || below(4) == 0)) due = {due[below(2)]};
    if (!eager_ || settling_ || below(3) == 0) ++version_;
    wire::ApplyDecision decision = decision_of(sequence_++, {}, version_);
    for (Pusher* const pusher : due) {
      decision.contributions.push_back({pusher->worker, pusher->whole.front(), 1});
      pusher->whole.pop_front();
      ++revision_;
    }
    decision.revision_after = Revision(revision_);
    decided_.push_back(decision.revision_after);
    const bool named_already = content_of_.contains(decision.version_after);
    decision.retain = retained_.size() < kRetainedMax && !named_already && below(3) == 0;
    if (decision.retain) {
      retained_.push_back(decision.version_after);
      content_of_[decision.version_after] = decision.revision_after;
    }
    send(Peer::of(kAuthority), decision);
  }
  // Decisions that the shard has wait.
  std::size_t on_their_way() {
    std::erase_if(decided_, [this](Revision after) { return after <= service_->shard()->now().revision; });
    return decided_.size();
  }

  void release() {
    if (retained_.empty()) return;
    send(Peer::of(kAuthority), wire::Release{retained_.front()});
    retained_.erase(retained_.begin());
  }

  void pull(std::uint32_t n) {
    Node& node = nodes_[n];
    if (node.lost || node.open.size() >= config_.cluster.threads_per_node + 2) return;
    const std::int64_t oldest = std::max<std::int64_t>(0, version_ - 3);
    const Version min_version(
        oldest + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(version_ - oldest) + 2)));
    node.open[++requests_] = {min_version};
    send(Peer::of(NodeId(n)), wire::Pull{requests_, min_version, false, node.has});
  }

  void pull_exact(std::uint32_t n) {
    Node& node = nodes_[n];
    if (node.lost || retained_.empty() || node.open.size() >= config_.cluster.threads_per_node + 2) return;
    node.open[++requests_] = {retained_.front(), true};
    send(Peer::of(NodeId(n)), wire::Pull{requests_, retained_.front(), true, kNoRevision});
  }

  void lose(std::uint32_t n) {
    nodes_[n].lost = true;
    send(Peer::of(kAuthority), wire::NodeLost{NodeId(n), "the schedule says so"});
  }

  // The node takes one message; only then is its payload let go of.
  void read(std::uint32_t n) {
    auto& queue = outbox_.queues[n];
    if (queue.empty()) return;
    const wire::Message message = std::move(queue.front());
    queue.pop_front();
    if (const auto* piece = std::get_if<wire::Parameters>(&message.body)) {
      std::vector<float> values(static_cast<std::size_t>(message.payload.count()));
      const Status decoded = decode(message.payload.encoding, message.payload.bytes(), values);
      if (!decoded.is_ok()) fault(decoded.message());
      take(n, *piece, values);
    } else if (const auto* same = std::get_if<wire::Unchanged>(&message.body)) {
      Node& node = nodes_[n];
      const auto request = node.open.find(same->request);
      if (request == node.open.end()) return fault("an answer to nothing");
      if (same->version < request->second.min_version) fault("unchanged, but older than asked for");
      if (same->revision != node.has) {
        fault("unchanged at revision " + to_string(same->revision) + ", but the node has " +
              to_string(node.has));
      }
      node.open.erase(request);
    } else if (const auto* error = std::get_if<wire::Error>(&message.body)) {
      const bool late = error->code == StatusCode::kNotFound;  // exact, and released before it came
      if (!late) return fault(error->message);
      std::erase_if(nodes_[n].open, [](const auto& open) { return open.second.exact; });
    }
  }

  void take(std::uint32_t n, const wire::Parameters& piece, std::span<const float> values) {
    Node& node = nodes_[n];
    const auto found = node.open.find(piece.request);
    if (found == node.open.end()) return;  // of an exact pull that was given up
    Request& request = found->second;
    const bool right =
        request.exact ? piece.version == request.min_version : piece.version >= request.min_version;
    if (!right) fault("version " + to_string(piece.version) + " for " + to_string(request.min_version));
    const Revision expected = request.exact ? content_of_[request.min_version] : piece.revision;
    for (const float value : values) {
      if (value != -static_cast<float>(expected.value)) {
        return fault("revision " + to_string(expected) + " holds " + std::to_string(value));
      }
    }
    request.received += static_cast<std::int64_t>(values.size());
    if (!piece.last) return;
    if (request.received != floats_) fault("an answer of " + std::to_string(request.received) + " floats");
    if (!request.exact) {
      if (piece.revision < node.has) {
        fault("node " + std::to_string(n) + " had revision " + to_string(node.has) +
              " and was answered with " + to_string(piece.revision));
      }
      node.has = piece.revision;
    }
    node.open.erase(found);
  }

  // What is leaving in fewer bytes is there once, however many read it.
  void check_encoded(std::size_t blocks) {
    std::set<const std::byte*> buffers;
    for (const auto& [n, queue] : outbox_.queues) {
      for (const wire::Message& message : queue) {
        if (message.payload.encoding != Encoding::kFp32) buffers.insert(message.payload.data);
      }
    }
    if (buffers.size() > blocks) {
      fault(std::to_string(buffers.size()) + " encoded blocks are alive, of a shard of " +
            std::to_string(blocks));
    }
  }

  // A released version whose replies are still queued is in the place of a retained one.
  void check_memory() {
    const Shard& shard = *service_->shard();
    std::set<Version> in_flight;
    for (const auto& [n, queue] : outbox_.queues) {
      for (const wire::Message& message : queue) {
        const auto* piece = std::get_if<wire::Parameters>(&message.body);
        if (piece == nullptr || !nodes_[n].open.contains(piece->request)) continue;
        if (nodes_[n].open[piece->request].exact && shard.retained(piece->version) == nullptr) {
          in_flight.insert(piece->version);
        }
      }
    }
    const std::size_t retained = shard.retained_count() + in_flight.size();
    const auto blocks = static_cast<std::size_t>(shard.now().blocks.block_count());
    check_encoded(blocks);
    if (retained > kRetainedMax) fault(std::to_string(retained) + " versions are kept beside the parameters");
    if (shard.blocks_in_use() > blocks * (2 + retained)) {
      fault(std::to_string(shard.blocks_in_use()) + " blocks are alive, of a shard of " +
            std::to_string(blocks) + " with " + std::to_string(retained) + " retained");
    }
  }

  // Everybody who has not gone reads and trains on until nobody waits.
  void settle() {
    settling_ = true;
    for (int round = 0; round < 20 && wrong_.empty(); ++round) {
      for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
        while (!nodes_[n].lost && !outbox_.queues[n].empty() && wrong_.empty()) read(n);
      }
      tick(config_.cluster.lease);
      if (left_) wake();
      for (Pusher& pusher : pushers_) {
        for (std::uint64_t piece = 0; pusher.whole.empty() && piece < kBlocksMax; ++piece) push_piece(pusher);
      }
      decide();
      check_memory();
    }
    for (std::uint32_t n = 0; n < nodes_.size() && wrong_.empty(); ++n) {
      if (!nodes_[n].lost && !nodes_[n].open.empty())
        fault("a pull of node " + std::to_string(n) + " was never answered");
      if (nodes_[n].lost && std::any_of(outbox_.queues[n].begin(), outbox_.queues[n].end(),
                                        [](const wire::Message& m) { return !m.payload.empty(); }))
        fault("what was sent to node " + std::to_string(n) + ", which is lost, is kept");
    }
  }

  CounterRandom random_;
  RunConfig config_;
  bool eager_ = false;
  std::int64_t floats_ = 0;
  const Log log_;
  SlowOutbox outbox_;
  std::optional<ShardService> service_;
  bool left_ = false;
  Ticks now_;

  Pusher pushers_[2] = {{WorkerId(0, 0)}, {WorkerId(1, 0)}};  // the second may be lost
  bool settling_ = false;
  std::int64_t sequence_ = 0;
  std::int64_t revision_ = 0;
  std::vector<Revision> decided_;  // what the newest decisions lead to
  std::int64_t version_ = 0;
  std::vector<Version> retained_;  // as far as the authority knows
  std::map<Version, Revision> content_of_;
  std::vector<Node> nodes_;
  std::uint64_t requests_ = 0;
  std::string wrong_;
};

}  // namespace

std::string violation_of_slow_readers(std::uint64_t seed, std::int64_t* prepared) {
  Walk walk(seed);
  std::string wrong = walk.run();
  if (prepared != nullptr) *prepared += walk.prepared();
  return wrong.empty() ? wrong : "slow readers, seed " + std::to_string(seed) + ": " + wrong;
}

}  // namespace paceline::server
