// A step as one CUDA graph. What a step puts into its stream is the same each time: the same kernels on the
// same memory, some forty launches. Put into a graph once, they are one launch. A step that finds its
// mini-batch in one of two places is two graphs.
//
//   run 1   put into the stream as they are: the last that is made at its first use is made then
//   run 2   captured, and launched as a graph
//   run 3…  launched; with its mini-batch in the other place for the first time, captured before
//
// What else a process does with a GPU can spoil a capture, and there may be no memory to make a graph of
// it: such a run
// is put into the stream as the first was, and the next one tries again, some times.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "common/cuda/resources.h"
#include "common/status.h"
#include "worker/model/cuda/gpu_thread.h"

namespace paceline::cuda {

// How events are recorded where somebody outside of the stream waits for them: in a graph each launch is to
// record them anew.
enum class Recording { kNow, kAtEachLaunch };

inline Status record_event(const Event& event, cudaStream_t stream, Recording recording) {
  const unsigned flags =
      recording == Recording::kAtEachLaunch ? cudaEventRecordExternal : cudaEventRecordDefault;
  PACELINE_CUDA(cudaEventRecordWithFlags(event.get(), stream, flags));
  return Status::ok();
}

// Thread: the one whose stream it is.
class StepGraph {
 public:
  using Put = std::function<Status(Recording)>;

  // Has done in the thread's compute stream what `put` puts there for `place`, the first or the second. `put`
  // is called the first time of all, and the next time of each place; what it puts there must then be good
  // for all the others, and memory of the host in it is pinned. Errors: those of `put` and of capturing, of
  // which nothing is kept.
  Status run(const GpuThread& gpu, std::size_t place, const Put& put) {
    GraphExec& graph = graphs_[place];
    if (graph == nullptr) {
      if (!std::exchange(warm_, true) || spoilt_ == kSpoiltMax) return put(Recording::kNow);
      PACELINE_RETURN_IF_ERROR(capture(gpu, put, graph));
      if (graph == nullptr) {
        if (++spoilt_ == kSpoiltMax)
          gpu.warn("steps are launched kernel by kernel, since no graph can be made");
        return put(Recording::kNow);
      }
    }
    PACELINE_CUDA(cudaGraphLaunch(graph.get(), gpu.compute()));
    return Status::ok();
  }

 private:
  static constexpr int kSpoiltMax = 3;

  // `into` stays null where somebody spoilt it, or there is no memory for it.
  static Status capture(const GpuThread& gpu, const Put& put, GraphExec& into) {
    auto lock = gpu.alone();
    // Of this thread alone: others may allocate meanwhile.
    PACELINE_CUDA(cudaStreamBeginCapture(gpu.compute(), cudaStreamCaptureModeThreadLocal));
    const Status done = put(Recording::kAtEachLaunch);
    cudaGraph_t captured = nullptr;
    const cudaError_t end = cudaStreamEndCapture(gpu.compute(), &captured);
    const Status ended = status_of(end, "cudaStreamEndCapture");
    const Graph graph(captured);
    lock.unlock();
    if (end == cudaErrorStreamCaptureInvalidated) return Status::ok();  // whatever `put` was told of it
    PACELINE_RETURN_IF_ERROR(done);
    PACELINE_RETURN_IF_ERROR(ended);
    cudaGraphExec_t made = nullptr;
    const Status instantiated =
        status_of(cudaGraphInstantiate(&made, graph.get(), 0), "cudaGraphInstantiate");
    if (instantiated.code() == StatusCode::kResourceExhausted) return Status::ok();
    PACELINE_RETURN_IF_ERROR(instantiated);
    into.reset(made);
    return Status::ok();
  }

  bool warm_ = false;
  int spoilt_ = 0;
  std::array<GraphExec, 2> graphs_;
};

}  // namespace paceline::cuda
