#include "tests/fake_cuda/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "common/assert.h"

namespace paceline::fake_cuda {

// The only one there is: the libraries that it stands for are functions, with nobody to hand it to them.
Device& Device::instance() {
  static Device device;
  return device;
}

bool Device::fails(const char* name) {
  ++calls_;
  if (calls_ != fails_at_) return false;
  failed_ = name;
  return true;
}

void* Device::allocate(std::size_t bytes, Kind kind) {
  void* memory = std::malloc(bytes);
  PACELINE_ASSERT(memory != nullptr, std::to_string(bytes) + " bytes");
  // Of what is as large as cuBLAS' workspace, which a thread has and these tests do not use, the ends: to
  // touch all of its pages is most of what making a thread takes.
  constexpr std::size_t kCublasWorkspace = std::size_t{32} << 20;
  constexpr std::size_t kEnd = std::size_t{1} << 20;
  std::memset(memory, 0xFF, bytes != kCublasWorkspace ? bytes : kEnd);
  if (bytes == kCublasWorkspace) std::memset(static_cast<char*>(memory) + bytes - kEnd, 0xFF, kEnd);
  memory_[static_cast<const char*>(memory)] = {bytes, kind, false};
  return memory;
}

bool Device::free(void* memory, Kind kind) {
  const auto found = memory_.find(static_cast<const char*>(memory));
  if (found == memory_.end() || found->second.kind != kind || found->second.registered) return false;
  memory_.erase(found);
  std::free(memory);
  return true;
}

// As the real one, it counts in pages: two that share one cannot both be pinned.
bool Device::pin(void* memory, std::size_t bytes, Access access) {
  constexpr std::uintptr_t kPage = 4096;
  const bool whole_pages = reinterpret_cast<std::uintptr_t>(memory) % kPage == 0 && bytes % kPage == 0;
  if (!whole_pages || kind_of(memory)) return false;
  memory_[static_cast<const char*>(memory)] = {bytes, Kind::kPinned, true, access};
  return true;
}

bool Device::unpin(void* memory) {
  const auto found = memory_.find(static_cast<const char*>(memory));
  if (found == memory_.end() || !found->second.registered) return false;
  memory_.erase(found);
  return true;
}

std::optional<Kind> Device::kind_of(const void* memory) const {
  for (const Kind kind : {Kind::kDevice, Kind::kPinned}) {
    if (is_inside(memory, 1, kind)) return kind;
  }
  return std::nullopt;
}

const Device::Allocation* Device::around(const void* from, std::size_t bytes, Kind kind) const {
  const char* begin = static_cast<const char*>(from);
  const auto behind = memory_.upper_bound(begin);
  if (behind == memory_.begin()) return nullptr;
  const auto& [first, allocation] = *std::prev(behind);
  const bool inside = allocation.kind == kind && begin + bytes <= first + allocation.bytes;
  return inside ? &allocation : nullptr;
}

bool Device::is_inside(const void* from, std::size_t bytes, Kind kind) const {
  return around(from, bytes, kind) != nullptr;
}

bool Device::is_writable(void* to, std::size_t bytes, Kind kind) const {
  const Allocation* const allocation = around(to, bytes, kind);
  return allocation != nullptr && allocation->access == Access::kBoth;
}

cudaError_t Device::enqueue(const char* call, cudaStream_t stream, CUstream_st::Work work) {
  if (!is_alive(stream)) {
    return mistake(std::string(call) + ": a stream that is not there", cudaErrorInvalidResourceHandle);
  }
  if (stream->gpu != current_gpu()) {
    return mistake(std::string(call) + ": a stream of another GPU", cudaErrorInvalidResourceHandle);
  }
  if (stream->capturing != nullptr) {
    if (spoilt_) return failed(cudaErrorStreamCaptureInvalidated);
    stream->capturing->nodes.push_back({std::move(work), nullptr});
    return cudaSuccess;
  }
  stream->waiting.push_back(std::move(work));
  if (machine.work == Work::kAtOnce) finish(stream);
  if (machine.work == Work::kAtRandom) run_ahead();
  return cudaSuccess;
}

void Device::run_ahead() {
  std::vector<cudaStream_t> busy;
  for (const auto& [object, type] : objects_) {
    if (type != typeid(CUstream_st)) continue;
    auto* const stream = static_cast<CUstream_st*>(const_cast<void*>(object));
    if (!stream->waiting.empty()) busy.push_back(stream);
  }
  // By an order that does not depend on where they were allocated.
  std::ranges::sort(busy, {}, &CUstream_st::number);
  for (CUstream_st* const stream : busy) {
    for (std::uint64_t steps = order_->next_below(4); steps > 0 && !stream->waiting.empty(); --steps) {
      do_first(stream);
    }
  }
}

void Device::do_first(cudaStream_t stream) {
  const CUstream_st::Work work = std::move(stream->waiting.front());
  stream->waiting.pop_front();
  work();
}

void Device::go_alone(const char* call) {
  if (captures_ == 0) return;
  spoilt_ = true;
  mistake(std::string(call) + ": while a stream is captured", cudaErrorStreamCaptureUnsupported);
}

cudaError_t Device::record(const char* call, cudaEvent_t event, cudaStream_t stream) {
  if (!is_alive(event)) {
    return mistake(std::string(call) + ": an event that is not there", cudaErrorInvalidResourceHandle);
  }
  event->stream = stream;
  const std::int64_t record = ++event->recorded;
  return enqueue(call, stream, [this, event, record] {
    event->passed = record;
    event->passed_as = ++passed_events_;
  });
}

void Device::finish(cudaStream_t stream) {
  while (!stream->waiting.empty()) do_first(stream);
}

void Device::finish(cudaEvent_t event, std::int64_t record) {
  while (event->passed < record && !event->stream->waiting.empty()) do_first(event->stream);
}

void Device::finish_all() {
  for (const auto& [object, type] : objects_) {
    if (type == typeid(CUstream_st)) finish(static_cast<CUstream_st*>(const_cast<void*>(object)));
  }
}

void set_up(const Machine& machine) {
  FAKE_CUDA_RELEASE();
  PACELINE_ASSERT(device.objects_.empty() && device.memory_.empty(), "something is alive");
  device.machine = machine;
  device.calls_ = 0;
  device.fails_at_ = 0;
  device.failed_.clear();
  device.mistakes_.clear();
  device.waits_.clear();
  device.uploads_.clear();
  device.products_.clear();
  device.launches_ = 0;
  device.spoilt_ = false;
  device.order_.emplace(machine.seed, Stream::kTest, 17);
}

void fail_call(std::int64_t nth) {
  FAKE_CUDA_RELEASE();
  device.fails_at_ = nth == 0 ? 0 : device.calls_ + nth;
}

std::int64_t calls() {
  FAKE_CUDA_RELEASE();
  return device.calls_;
}

std::string failed_call() {
  FAKE_CUDA_RELEASE();
  return device.failed_;
}

std::int64_t alive() {
  FAKE_CUDA_RELEASE();
  return static_cast<std::int64_t>(device.objects_.size() + device.memory_.size());
}

std::vector<std::string> mistakes() {
  FAKE_CUDA_RELEASE();
  return device.mistakes_;
}

std::vector<std::string> waits() {
  FAKE_CUDA_RELEASE();
  return device.waits_;
}

std::vector<Upload> uploads() {
  FAKE_CUDA_RELEASE();
  return device.uploads_;
}

void spoil_capture() {
  FAKE_CUDA_RELEASE();
  device.spoil_capture();
}

std::int64_t launches() {
  FAKE_CUDA_RELEASE();
  return device.launches_;
}

std::vector<std::string> products() {
  FAKE_CUDA_RELEASE();
  return device.products_;
}

}  // namespace paceline::fake_cuda
