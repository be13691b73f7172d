// The loader threads and the queues between them and the training threads; see loader.h.
//
// A slot holds one mini-batch and goes round:
//
//   kFree --plan--> kQueued --taken--> kMaking --made--> kReady --next()--> kHeld --> kFree
//
// It is taken by a loader thread, or by the worker itself.
//
// kQueued and kReady slots whose mini-batch is no longer predicted are planned anew. All states are under one
// mutex per node, which is only ever held for a few comparisons: mini-batches are made outside of it.
#include "worker/data/loader.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"

namespace paceline {

namespace asio = boost::asio;

// What the queues and the loader threads of a node share. Outlives the Loader while a queue lives.
class LoaderCore {
 public:
  LoaderCore(std::shared_ptr<const BatchMaker> batch_maker, const LoaderOptions& options)
      : maker(std::move(batch_maker)), deadline(options.deadline), memory(options.memory) {}
  std::pmr::memory_resource& image_memory() const {
    return memory != nullptr ? *memory : *std::pmr::new_delete_resource();
  }

  const std::shared_ptr<const BatchMaker> maker;
  const std::chrono::nanoseconds deadline;
  const std::shared_ptr<std::pmr::memory_resource> memory;
  std::mutex mutex;                 // guards what follows, and every slot's state
  std::condition_variable changed;  // a slot became kReady, or stopped
  bool stopped = false;
  asio::thread_pool* pool = nullptr;  // null: no loader threads; valid while not stopped
};

struct BatchQueue::State : std::enable_shared_from_this<BatchQueue::State> {
  enum class SlotState { kFree, kQueued, kMaking, kReady, kHeld };
  enum class Job { kNone, kPosted };
  struct Slot {
    explicit Slot(std::pmr::memory_resource& memory) : batch(memory) {}
    SlotState state = SlotState::kFree;
    Job job = Job::kNone;  // at most one in the pool, also when the slot was planned anew meanwhile
    BatchPart part;
    MiniBatch batch;  // written by whoever moved the slot to kMaking, outside the mutex
    Status made;      // the error that there is instead of one
  };

  // Of a mini-batch among those predicted.
  struct Place {
    BatchPart part;
    InRow row;

    // `usual`: how many of a row are taken, where that is known to be less than all.
    Place ahead(std::int64_t steps, std::int64_t stride, std::int64_t usual) const {
      Place at = *this;
      for (; steps > 0; --steps) {
        const bool goes_on = at.row.place + 1 < row.of && at.row.place + 1 != usual;
        at.part.position += goes_on ? part.samples : stride - at.row.place * part.samples;
        at.row.place = goes_on ? at.row.place + 1 : 0;
      }
      return at;
    }
  };

  State(std::shared_ptr<LoaderCore> loader, const Prediction& prediction, std::uint32_t prefetch)
      : core(std::move(loader)), stride(prediction.stride), predicted(prediction) {
    const std::size_t count = std::size_t{prefetch} + 1;
    slots.reserve(count);
    while (slots.size() < count) slots.emplace_back(core->image_memory());
  }

  Slot* find(const BatchPart& part);
  InRow row_of(const BatchPart& part) const;
  void note_row(const InRow& row);
  bool is_planned(const Slot& slot, const Place& from) const;
  Slot* reusable(const Place& from);
  void plan(const Place& from);
  void post(std::size_t index);
  void run_job(std::size_t index);
  void make(Slot& slot, std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<LoaderCore> core;
  const std::int64_t stride;
  const Prediction predicted;
  std::vector<Slot> slots;  // prefetch + 1, never resized
  Slot* held = nullptr;     // what the last next() gave out
  Place held_at;            // its place
  std::int64_t usual = 0;   // mini-batches of a row, where the last one was left early; 0: all
  bool closed = false;      // the queue is gone: jobs still in the pool have nothing to do
  LoaderCounts counts;
};

BatchQueue::State::Slot* BatchQueue::State::find(const BatchPart& part) {
  const auto it = std::find_if(slots.begin(), slots.end(), [&part](const Slot& slot) {
    return slot.state != SlotState::kFree && slot.state != SlotState::kHeld && slot.part == part;
  });
  return it == slots.end() ? nullptr : &*it;
}

// As predicted: after its begin by so many mini-batches.
InRow BatchQueue::State::row_of(const BatchPart& part) const {
  const std::int64_t after = part.position - predicted.first.position;
  if (predicted.in_a_row == 1 || stride <= 0 || after < 0) return {};
  const std::int64_t place = after % stride / part.samples;
  return place < predicted.in_a_row ? InRow{place, predicted.in_a_row} : InRow{};
}

// The next mini-batch is at `row`: of a new row, or further in this one than was expected.
void BatchQueue::State::note_row(const InRow& row) {
  const InRow& before = held_at.row;
  if (row.place == 0) usual = before.place + 1 < before.of ? before.place + 1 : 0;
  if (row.place >= usual) usual = 0;
}

// Is the slot's mini-batch that at `from`, or one of the next ones, as many as are kept ready?
bool BatchQueue::State::is_planned(const Slot& slot, const Place& from) const {
  if (stride <= 0) return false;
  for (std::size_t k = 0; k + 1 < slots.size(); ++k) {
    if (slot.part == from.ahead(static_cast<std::int64_t>(k), stride, usual).part) return true;
  }
  return false;
}

// A slot that may be given another mini-batch: a free one, or one made for a prediction that did not come
// true.
BatchQueue::State::Slot* BatchQueue::State::reusable(const Place& from) {
  Slot* stale = nullptr;
  for (Slot& slot : slots) {
    if (slot.state == SlotState::kFree) return &slot;
    const bool idle = slot.state == SlotState::kQueued || slot.state == SlotState::kReady;
    if (idle && !is_planned(slot, from)) stale = &slot;
  }
  return stale;
}

// Queues the predicted mini-batches from `from` on that are not there yet, as far as slots can be had. Slots
// that a loader thread is still filling for an outdated prediction are left alone; the next call finds them
// idle.
void BatchQueue::State::plan(const Place& from) {
  if (stride <= 0 || core->pool == nullptr || core->stopped) return;
  for (std::size_t k = 0; k + 1 < slots.size(); ++k) {
    const BatchPart part = from.ahead(static_cast<std::int64_t>(k), stride, usual).part;
    if (find(part) != nullptr) continue;
    Slot* slot = reusable(from);
    if (slot == nullptr) return;
    slot->state = SlotState::kQueued;
    slot->part = part;
    if (slot->job == Job::kNone) post(static_cast<std::size_t>(slot - slots.data()));
  }
}

// Under the mutex and not stopped, so the pool is there; asio::post never runs the job in place.
void BatchQueue::State::post(std::size_t index) {
  slots[index].job = Job::kPosted;
  asio::post(*core->pool, [self = shared_from_this(), index] { self->run_job(index); });
}

void BatchQueue::State::run_job(std::size_t index) {
  std::unique_lock lock(core->mutex);
  Slot& slot = slots[index];
  slot.job = Job::kNone;
  if (core->stopped || closed || slot.state != SlotState::kQueued) return;  // taken by the worker meanwhile
  make(slot, lock);
  core->changed.notify_all();
}

void BatchQueue::State::make(Slot& slot, std::unique_lock<std::mutex>& lock) {
  slot.state = SlotState::kMaking;
  const BatchPart part = slot.part;
  lock.unlock();
  Status made;
  try {
    made = core->maker->make(part, slot.batch);
  } catch (const std::exception& e) {  // no memory for so many samples
    made = resource_exhausted("mini-batch of samples " + to_string(part) + ": " + e.what());
  }
  lock.lock();
  slot.made = std::move(made);
  slot.state = SlotState::kReady;
}

BatchQueue::BatchQueue(std::shared_ptr<State> state) : state_(std::move(state)) {}
BatchQueue::BatchQueue(BatchQueue&&) noexcept = default;
BatchQueue::~BatchQueue() {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->core->mutex);
  state_->closed = true;
}

Result<const MiniBatch*> BatchQueue::next(const BatchPart& part, std::optional<InRow> given) {
  using Slot = State::Slot;
  using SlotState = State::SlotState;
  PACELINE_ASSERT(part.position >= 0 && part.samples > 0, "a mini-batch of " + to_string(part));
  const InRow row = given ? *given : state_->row_of(part);
  PACELINE_ASSERT(row.place < row.of, "a mini-batch of a row of " + std::to_string(row.of));
  State& state = *state_;
  LoaderCore& core = *state.core;
  std::unique_lock lock(core.mutex);
  if (state.held != nullptr) state.held->state = SlotState::kFree;
  state.held = nullptr;
  const auto stopped = [&] {
    return aborted("mini-batch of samples " + to_string(part) + ": loader stopped");
  };
  if (core.stopped) return stopped();

  Slot* slot = state.find(part);
  if (slot == nullptr) {
    slot = state.reusable({part, row});
    // One slot is not being filled at any time: the worker held it until now, or was never given one.
    PACELINE_ASSERT(slot != nullptr, "no slot for samples " + to_string(part));
    slot->state = SlotState::kQueued;
    slot->part = part;
  }
  switch (slot->state) {
    case SlotState::kReady:
      ++state.counts.ready;
      break;
    case SlotState::kMaking: {
      ++state.counts.waited;
      const auto is_made = [&] { return slot->state == SlotState::kReady || core.stopped; };
      if (!core.changed.wait_for(lock, core.deadline, is_made)) {
        return deadline_exceeded("mini-batch of samples " + to_string(part) + ": not made within " +
                                 std::to_string(core.deadline.count() / 1'000'000) +
                                 " ms by a loader thread");
      }
      if (core.stopped) return stopped();
      break;
    }
    default:
      ++state.counts.on_demand;
      state.make(*slot, lock);
      break;
  }
  slot->state = SlotState::kHeld;
  state.held = slot;
  state.note_row(row);
  state.held_at = {part, row};
  PACELINE_RETURN_IF_ERROR(slot->made);
  state.plan(state.held_at.ahead(1, state.stride, state.usual));
  return &slot->batch;
}

// What next() has given out is touched by nobody else.
Status BatchQueue::take(const BatchPart& part, MiniBatch& batch) {
  PACELINE_RETURN_IF_ERROR(next(part).status());
  MiniBatch& made = state_->held->batch;
  PACELINE_ASSERT(made.images.get_allocator() == batch.images.get_allocator(), "memory of two kinds");
  std::swap(made, batch);
  return Status::ok();
}

// A kReady slot is planned anew by nobody but next(), which the caller does not call meanwhile.
std::optional<ReadyBatch> BatchQueue::following() const {
  State& state = *state_;
  const std::lock_guard lock(state.core->mutex);
  if (state.held == nullptr || state.stride <= 0) return std::nullopt;
  const BatchPart part = state.held_at.ahead(1, state.stride, state.usual).part;
  const State::Slot* const slot = state.find(part);
  if (slot == nullptr || slot->state != State::SlotState::kReady || !slot->made.is_ok()) return std::nullopt;
  return ReadyBatch{part, &slot->batch};
}

LoaderCounts BatchQueue::counts() const {
  const std::lock_guard lock(state_->core->mutex);
  return state_->counts;
}

struct Loader::Threads {
  explicit Threads(std::uint32_t count) : pool(count) {}
  asio::thread_pool pool;
};

Loader::Loader(std::shared_ptr<const BatchMaker> maker, const LoaderOptions& options)
    : core_(std::make_shared<LoaderCore>(std::move(maker), options)), options_(options) {
  if (options.threads == 0) return;
  threads_ = std::make_unique<Threads>(options.threads);
  core_->pool = &threads_->pool;
}

Loader::~Loader() {
  stop();
  if (threads_ != nullptr) threads_->pool.join();  // jobs still queued see `stopped` and return at once
}

BatchQueue Loader::open(const Prediction& prediction) {
  auto state = std::make_shared<BatchQueue::State>(core_, prediction, options_.prefetch);
  const std::lock_guard lock(core_->mutex);
  state->plan({prediction.first, {0, prediction.in_a_row}});
  return BatchQueue(std::move(state));
}

void Loader::stop() {
  const std::lock_guard lock(core_->mutex);
  core_->stopped = true;
  core_->changed.notify_all();
}

}  // namespace paceline
