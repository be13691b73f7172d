// The state behind fake_cuda.h, for the files that define the libraries' calls.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"

// Of these CUDA's headers know the names alone.
struct CUevent_st {
  std::int64_t recorded = 0;  // how often
  std::int64_t passed = 0;    // how many of these the stream has come to
  CUstream_st* stream = nullptr;
};

struct CUstream_st {
  using Work = std::function<void()>;
  int gpu = 0;
  std::deque<Work> waiting;
};

namespace paceline::fake_cuda {

enum class Kind { kDevice, kPinned };

class Device {
 public:
  static Device& instance();

  // Held by each call.
  std::recursive_mutex mutex;
  Machine machine;

  // Whether call `name` is to fail; counts it.
  bool fails(const char* name);
  // `what` is kept; returns `error`.
  template <typename Error>
  Error mistake(const std::string& what, Error error) {
    mistakes_.push_back(what);
    return error;
  }

  // Objects: streams, events, handles, descriptors. One of another type is not alive.
  template <typename T>
  T* make() {
    T* object = new T();
    objects_.emplace(object, typeid(T));
    return object;
  }
  template <typename T>
  bool is_alive(const T* object) const {
    const auto found = objects_.find(object);
    return found != objects_.end() && found->second == typeid(T);
  }
  // False: it was not there.
  template <typename T>
  bool destroy(T* object) {
    if (!is_alive(object)) return false;
    objects_.erase(object);
    delete object;
    return true;
  }

  void* allocate(std::size_t bytes, Kind kind);
  bool free(void* memory, Kind kind);
  // Whether [from, from + bytes) lies inside one allocation of this kind.
  bool is_inside(const void* from, std::size_t bytes, Kind kind) const;

  // Work in a stream that exists and is of the current GPU; else a mistake, named `call`.
  cudaError_t enqueue(const char* call, cudaStream_t stream, CUstream_st::Work work);
  // Does all that is waiting in it.
  void finish(cudaStream_t stream);
  void finish_all();
  // Does what stands in front of the event's last record.
  void finish(cudaEvent_t event, std::int64_t record);

  void note_product(std::string what) { products_.push_back(std::move(what)); }
  void note_wait(const char* call) { waits_.push_back(call); }

 private:
  friend void set_up(const Machine&);
  friend void fail_call(std::int64_t);
  friend std::int64_t calls();
  friend std::string failed_call();
  friend std::int64_t alive();
  friend std::vector<std::string> mistakes();
  friend std::vector<std::string> waits();
  friend std::vector<std::string> products();

  struct Allocation {
    std::size_t bytes;
    Kind kind;
  };

  std::map<const void*, std::type_index> objects_;
  std::map<const char*, Allocation> memory_;
  std::int64_t calls_ = 0;
  std::int64_t fails_at_ = 0;  // the number of the call that fails; 0: none
  std::string failed_;
  std::vector<std::string> mistakes_;
  std::vector<std::string> waits_;
  std::vector<std::string> products_;
};

// As cudaSetDevice left it for the calling thread.
int current_gpu();

// What each call that can fail begins with.
#define FAKE_CUDA_CALL(error)                                                        \
  ::paceline::fake_cuda::Device& device = ::paceline::fake_cuda::Device::instance(); \
  const std::lock_guard lock(device.mutex);                                          \
  if (device.fails(__func__)) return error
// The same of one that cannot.
#define FAKE_CUDA_RELEASE()                                                          \
  ::paceline::fake_cuda::Device& device = ::paceline::fake_cuda::Device::instance(); \
  const std::lock_guard lock(device.mutex)

}  // namespace paceline::fake_cuda
