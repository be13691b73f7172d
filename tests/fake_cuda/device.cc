#include "tests/fake_cuda/device.h"

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
  std::memset(memory, 0xFF, bytes);
  memory_[static_cast<const char*>(memory)] = {bytes, kind};
  return memory;
}

bool Device::free(void* memory, Kind kind) {
  const auto found = memory_.find(static_cast<const char*>(memory));
  if (found == memory_.end() || found->second.kind != kind) return false;
  memory_.erase(found);
  std::free(memory);
  return true;
}

bool Device::is_inside(const void* from, std::size_t bytes, Kind kind) const {
  const char* begin = static_cast<const char*>(from);
  const auto behind = memory_.upper_bound(begin);
  if (behind == memory_.begin()) return false;
  const auto& [first, allocation] = *std::prev(behind);
  return allocation.kind == kind && begin + bytes <= first + allocation.bytes;
}

cudaError_t Device::enqueue(const char* call, cudaStream_t stream, CUstream_st::Work work) {
  if (!is_alive(stream)) {
    return mistake(std::string(call) + ": a stream that is not there", cudaErrorInvalidResourceHandle);
  }
  if (stream->gpu != current_gpu()) {
    return mistake(std::string(call) + ": a stream of another GPU", cudaErrorInvalidResourceHandle);
  }
  stream->waiting.push_back(std::move(work));
  if (machine.work == Work::kAtOnce) finish(stream);
  return cudaSuccess;
}

void Device::finish(cudaStream_t stream) {
  while (!stream->waiting.empty()) {
    const CUstream_st::Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    work();
  }
}

void Device::finish(cudaEvent_t event, std::int64_t record) {
  while (event->passed < record && !event->stream->waiting.empty()) {
    const CUstream_st::Work work = std::move(event->stream->waiting.front());
    event->stream->waiting.pop_front();
    work();
  }
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
  device.products_.clear();
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

std::vector<std::string> products() {
  FAKE_CUDA_RELEASE();
  return device.products_;
}

}  // namespace paceline::fake_cuda
