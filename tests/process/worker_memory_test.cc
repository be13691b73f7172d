// Lean: what a training thread holds, counted in parameter vectors: its cache, its gradients, its optimizer's
// state and the differences that read-my-writes needs, whatever the policy. Real nodes and servers; this
// program's operator new keeps an account of the large blocks that each training thread asks for.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <new>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"
#include "worker/train/gradient_buffers.h"

namespace paceline::testing {
namespace {

constexpr std::uint32_t kThreads = 2;  // of each of two nodes
constexpr std::int64_t kBlocks = 10'000;
constexpr std::int64_t kVectorBytes = kBlocks * 2 * kThreads * static_cast<std::int64_t>(sizeof(float));
constexpr std::size_t kLarge = kVectorBytes / 4;  // half a slice of one of two shards

struct Account {
  std::atomic<std::int64_t> live{0};  // bytes in large blocks
  std::atomic<std::int64_t> peak{0};

  void add(std::int64_t bytes) {
    const std::int64_t now = live += bytes;
    std::int64_t before = peak;
    while (before < now && !peak.compare_exchange_weak(before, now)) {
    }
  }
};

// Whose large blocks this thread's are; none but a training thread has one.
thread_local Account* account_of_thread = nullptr;

// Stands before every block.
struct alignas(alignof(std::max_align_t)) Label {
  Account* account;
  std::size_t bytes;
};

}  // namespace
}  // namespace paceline::testing

void* operator new(std::size_t bytes) {
  using namespace paceline::testing;
  auto* const label = static_cast<Label*>(std::malloc(sizeof(Label) + bytes));
  if (label == nullptr) throw std::bad_alloc();
  *label = {bytes >= kLarge ? account_of_thread : nullptr, bytes};
  if (label->account != nullptr) label->account->add(static_cast<std::int64_t>(bytes));
  return label + 1;
}

void operator delete(void* block) noexcept {
  using namespace paceline::testing;
  if (block == nullptr) return;
  auto* const label = static_cast<Label*>(block) - 1;
  if (label->account != nullptr) label->account->add(-static_cast<std::int64_t>(label->bytes));
  std::free(label);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

// std::pmr says the alignment, whatever it is. What malloc aligns anyway is counted like any other block.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto boundary = static_cast<std::size_t>(alignment);
  if (boundary <= alignof(std::max_align_t)) return operator new(bytes);
  void* const block = std::aligned_alloc(boundary, (bytes + boundary - 1) / boundary * boundary);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* block, std::align_val_t alignment) noexcept {
  const bool counted = static_cast<std::size_t>(alignment) <= alignof(std::max_align_t);
  counted ? operator delete(block) : std::free(block);
}

void operator delete(void* block, std::size_t, std::align_val_t alignment) noexcept {
  operator delete(block, alignment);
}

namespace paceline::testing {
namespace {

// The counting model, whose training threads have accounts from their first moment on.
class AccountedFactory : public CountingFactory {
 public:
  AccountedFactory(CountingOptions options, std::vector<Account>& accounts)
      : CountingFactory(options), cluster_(options.cluster), accounts_(accounts) {}
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    account_of_thread = &accounts_[cluster_.rank_of(worker).value];
    return CountingFactory::make_trainer(worker);
  }

 private:
  const Cluster cluster_;
  std::vector<Account>& accounts_;
};

struct Expected {
  const char* what;
  PolicyKind policy;
  ApplyMode apply;
  std::optional<std::int64_t> refresh_clocks;
  OptimizerKind optimizer;
  std::int64_t states;       // vectors of the optimizer's state
  std::int64_t differences;  // own gradients that a snapshot may lack; none where s = 0
};

constexpr std::int64_t kThreshold = 3;
// Under asp a snapshot may lack as many as a shard holds of a worker (docs/ARCHITECTURE.md, parameters in
// memory); one more comes before the next refresh.
constexpr std::int64_t kUnderAsp = 8 + 1;

const Expected kRuns[] = {
    {"bsp, sgd", PolicyKind::kBsp, ApplyMode::kVersioned, 1, OptimizerKind::kSgd, 0, 0},
    {"ssp, sgd", PolicyKind::kSsp, ApplyMode::kVersioned, 1, OptimizerKind::kSgd, 0, kThreshold + 1},
    {"ssp, momentum, refresh when required", PolicyKind::kSsp, ApplyMode::kVersioned, std::nullopt,
     OptimizerKind::kMomentum, 1, kThreshold + 1},
    {"ssp eager, adam, refresh when required", PolicyKind::kSsp, ApplyMode::kEager, std::nullopt,
     OptimizerKind::kAdam, 2, kThreshold + 1},
    {"dtssp, adam", PolicyKind::kDtssp, ApplyMode::kVersioned, std::nullopt, OptimizerKind::kAdam, 2,
     kThreshold + 1},
    {"asp, momentum", PolicyKind::kAsp, ApplyMode::kEager, 1, OptimizerKind::kMomentum, 1, kUnderAsp},
};

}  // namespace

TEST_CASE("a_training_thread_holds_its_cache_gradients_state_and_the_differences_it_needs") {
  const Expected& held = GENERATE(from_range(std::begin(kRuns), std::end(kRuns)));
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = kThreads;
  config.cluster.shards = 2;
  config.cluster.shared_memory = SharedMemory::kOff;  // gradients are asked for with operator new
  config.train.total_iterations = 400;
  config.train.batch_size = 10;
  config.train.optimizer.kind = held.optimizer;
  config.train.optimizer.lr = 1.0;
  config.sync.policy = held.policy;
  config.sync.threshold = kThreshold;
  config.sync.threshold_min = 1;
  config.sync.threshold_max = kThreshold;
  config.sync.lpr.window_clocks = 1;
  config.sync.apply = held.apply;
  config.sync.combine = CombineMode::kEach;
  config.sync.refresh_clocks = held.refresh_clocks;

  std::vector<Account> accounts(config.cluster.cluster().workers());
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = kBlocks;
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<AccountedFactory>(options, accounts); });
  INFO(held.what << ": " << run.status().message());
  REQUIRE(run.is_ok());
  CHECK(run->summary.iterations == config.train.total_iterations);

  constexpr auto kGradients = static_cast<std::int64_t>(GradientBuffers::kBuffersMax);
  const std::int64_t spare = held.differences > 0 ? 1 : 0;  // a dropped difference, for the next
  const std::int64_t most = 1 + kGradients + held.states + held.differences + spare;
  for (const Account& account : accounts) {
    INFO("held at most " << account.peak << " bytes in vectors of " << kVectorBytes);
    CHECK(account.peak >= 2 * kVectorBytes);  // its cache and a gradient: they are counted
    CHECK(account.peak <= most * kVectorBytes);
    CHECK(account.live == 0);
  }
}

}  // namespace paceline::testing
