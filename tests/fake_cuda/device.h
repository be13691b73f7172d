// The state behind fake_cuda.h, for the files that define the libraries' calls.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "common/random.h"
#include "tests/fake_cuda/fake_cuda.h"

// Of these CUDA's headers know the names alone.
struct CUevent_st {
  std::int64_t recorded = 0;   // how often
  std::int64_t passed = 0;     // how many of these the stream has come to
  std::int64_t passed_as = 0;  // the how-manieth of all that a stream came to
  CUstream_st* stream = nullptr;
};

struct CUstream_st {
  using Work = std::function<void()>;
  int gpu = 0;
  std::int64_t number = 0;  // of those that were made
  std::deque<Work> waiting;
  CUgraph_st* capturing = nullptr;  // what is put into the stream goes here instead
};

// Work in the order in which it was captured; where it is an event, each launch records that.
struct CUgraph_st {
  struct Node {
    CUstream_st::Work work;
    CUevent_st* event;
  };
  std::vector<Node> nodes;
};

struct CUgraphExec_st {
  std::vector<CUgraph_st::Node> nodes;
};

namespace paceline::fake_cuda {

enum class Kind { kDevice, kPinned };
enum class Access { kReadOnly, kBoth };

class Device {
 public:
  static Device& instance();

  // Held by each call.
  std::recursive_mutex mutex;
  Machine machine;

  std::int64_t calls_made() const { return calls_; }
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
  // Memory of the host that is pinned for as long as it is registered. False: not as it must be.
  bool pin(void* memory, std::size_t bytes, Access access);
  bool unpin(void* memory);
  // What kind of memory this is part of; nullopt: the host's, not pinned.
  std::optional<Kind> kind_of(const void* memory) const;
  // Whether [from, from + bytes) lies inside one allocation of this kind; and may be written, too.
  bool is_inside(const void* from, std::size_t bytes, Kind kind) const;
  bool is_writable(void* to, std::size_t bytes, Kind kind) const;

  // Work in a stream that exists and is of the current GPU; else a mistake, named `call`. Where the stream is
  // being captured it is only noted.
  cudaError_t enqueue(const char* call, cudaStream_t stream, CUstream_st::Work work);
  cudaError_t record(const char* call, cudaEvent_t event, cudaStream_t stream);
  // Work::kAtRandom: some of what is waiting in some streams is done, before what they wait for in others.
  void run_ahead();
  // Does all that is waiting in it.
  void finish(cudaStream_t stream);
  void finish_all();
  // Does what stands in front of the event's last record.
  void finish(cudaEvent_t event, std::int64_t record);

  // Of a call that may wait for the whole GPU: a mistake, named `call`, while a stream is captured, which is
  // spoilt by it.
  void go_alone(const char* call);
  void note_capture(int change) { captures_ += change; }
  bool take_spoilt() { return std::exchange(spoilt_, false); }
  void spoil_capture() { spoilt_ = true; }
  bool is_spoilt() const { return spoilt_; }

  void note_product(std::string what) { products_.push_back(std::move(what)); }
  void note_wait(const char* call) { waits_.push_back(call); }
  void note_upload(const void* from) { uploads_.push_back({from, waits_.size()}); }
  void note_launch() { ++launches_; }

 private:
  friend void set_up(const Machine&);
  friend void fail_call(std::int64_t);
  friend std::int64_t calls();
  friend std::string failed_call();
  friend std::int64_t alive();
  friend std::vector<std::string> mistakes();
  friend std::vector<std::string> waits();
  friend std::vector<Upload> uploads();
  friend std::vector<std::string> products();
  friend std::int64_t launches();
  void do_first(cudaStream_t stream);

  struct Allocation {
    std::size_t bytes;
    Kind kind;
    bool registered = false;  // not ours to free
    Access access = Access::kBoth;
  };
  const Allocation* around(const void* from, std::size_t bytes, Kind kind) const;

  std::map<const void*, std::type_index> objects_;
  std::map<const char*, Allocation> memory_;
  std::int64_t calls_ = 0;
  std::int64_t fails_at_ = 0;  // the number of the call that fails; 0: none
  std::string failed_;
  std::vector<std::string> mistakes_;
  std::vector<std::string> waits_;
  std::vector<Upload> uploads_;
  std::int64_t launches_ = 0;
  std::int64_t passed_events_ = 0;
  int captures_ = 0;
  bool spoilt_ = false;
  std::optional<CounterRandom> order_;
  std::vector<std::string> products_;
};

// As cudaSetDevice left it for the calling thread.
int current_gpu();

// The run time keeps a thread's last failure until it is asked for it, those of the calls that the other
// libraries make among them.
void note_failure(cudaError_t error);
template <typename Error>
Error failed(Error error) {
  if constexpr (std::is_same_v<Error, cudaError_t>) {
    note_failure(error);
  } else {
    note_failure(cudaErrorUnknown);
  }
  return error;
}

// What each call that can fail begins with.
#define FAKE_CUDA_CALL(error)                                                        \
  ::paceline::fake_cuda::Device& device = ::paceline::fake_cuda::Device::instance(); \
  const std::lock_guard lock(device.mutex);                                          \
  if (device.fails(__func__)) return ::paceline::fake_cuda::failed(error)
// The same of one that cannot.
#define FAKE_CUDA_RELEASE()                                                          \
  ::paceline::fake_cuda::Device& device = ::paceline::fake_cuda::Device::instance(); \
  const std::lock_guard lock(device.mutex)

}  // namespace paceline::fake_cuda
