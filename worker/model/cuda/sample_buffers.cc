#include "worker/model/cuda/sample_buffers.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/cuda/page_locked.h"

namespace paceline::cuda {
namespace {

// `values`, and zeros behind them.
template <typename T>
void fill(const Staged<T>& staged, std::span<const T> values) {
  T* const end = std::copy(values.begin(), values.end(), staged.host.data());
  std::fill(end, staged.host.data() + staged.host.size(), T{});
}

template <typename T>
Status send_whole(const Staged<T>& staged, cudaStream_t stream) {
  return staged.send(stream, 0, staged.host.size());
}

// The same memory: it has not changed since (NetworkBackend::predict()).
bool are_same(const Batch& a, const Batch& b) {
  return a.images.data() == b.images.data() && a.labels.data() == b.labels.data() && a.size() == b.size();
}

}  // namespace

Status SampleBuffers::make(const GpuThread& gpu, std::int64_t samples, std::int64_t floats) {
  gpu_ = &gpu;
  samples_ = samples;
  floats_ = samples * floats;
  return make(places_[front_]);
}

Status SampleBuffers::make(PlacedSamples& place) const {
  PlacedSamples made;
  PACELINE_ASSIGN_OR_RETURN(made.images, make_device_memory<float>(floats_));
  PACELINE_ASSIGN_OR_RETURN(made.labels, Staged<Label>::make(samples_));
  PACELINE_ASSIGN_OR_RETURN(made.epochs, Staged<std::int64_t>::make(samples_));
  PACELINE_ASSIGN_OR_RETURN(made.sample_ids, Staged<std::int64_t>::make(samples_));
  PACELINE_ASSIGN_OR_RETURN(made.uploaded, make_event());
  place = std::move(made);
  return Status::ok();
}

Status SampleBuffers::make_staging(PlacedSamples& place) const {
  if (place.staging.size() > 0) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(place.staging, make_pinned_memory<float>(floats_));
  return Status::ok();
}

// Nothing is on its way there.
Status SampleBuffers::make_behind(bool images_are_pinned) {
  Status made = behind().uploaded == nullptr ? make(behind()) : Status::ok();
  if (made.is_ok() && !images_are_pinned) made = make_staging(behind());
  if (made.code() != StatusCode::kResourceExhausted) return made;
  behind() = PlacedSamples();
  has_one_place_ = true;
  return Status::ok();
}

Status SampleBuffers::bring(const Batch& batch, Keys keys) {
  if (sent_ahead_ && are_same(*sent_ahead_, batch)) {
    front_ = 1 - front_;
    sent_ahead_.reset();
  } else {
    PACELINE_ASSIGN_OR_RETURN(const bool pinned, is_pinned(batch.images.data()));
    if (!pinned) PACELINE_RETURN_IF_ERROR(make_staging(places_[front_]));
    PACELINE_RETURN_IF_ERROR(send(batch, keys, places_[front_], pinned));
  }
  PACELINE_CUDA(cudaStreamWaitEvent(gpu_->compute(), front().uploaded.get(), 0));
  return Status::ok();
}

Status SampleBuffers::send_ahead(Keys keys) {
  if (!noted_) return Status::ok();
  const Batch next = *std::exchange(noted_, std::nullopt);
  if (has_one_place_) return Status::ok();
  if (sent_ahead_ && are_same(*sent_ahead_, next)) return Status::ok();
  PACELINE_RETURN_IF_ERROR(forget());
  PACELINE_ASSIGN_OR_RETURN(const bool pinned, is_pinned(next.images.data()));
  PACELINE_RETURN_IF_ERROR(make_behind(pinned));
  if (has_one_place_) return Status::ok();
  PACELINE_RETURN_IF_ERROR(send(next, keys, behind(), pinned));
  sent_ahead_ = next;
  return Status::ok();
}

Status SampleBuffers::forget() {
  const bool is_sent = sent_ahead_.has_value();
  drop();
  if (is_sent) PACELINE_CUDA(cudaEventSynchronize(behind().uploaded.get()));
  return Status::ok();
}

void SampleBuffers::drop() {
  noted_.reset();
  sent_ahead_.reset();
}

void SampleBuffers::stage_keys(const Batch& batch, const PlacedSamples& place) {
  fill(place.epochs, batch.epochs);
  fill(place.sample_ids, batch.sample_ids);
}

Status SampleBuffers::send(const Batch& batch, Keys keys, PlacedSamples& place, bool pinned) const {
  PACELINE_RETURN_IF_ERROR(send_images(batch, place, pinned));
  fill(place.labels, batch.labels);
  PACELINE_RETURN_IF_ERROR(send_whole(place.labels, gpu_->uploads()));
  if (keys == Keys::kSent) {
    stage_keys(batch, place);
    PACELINE_RETURN_IF_ERROR(send_whole(place.epochs, gpu_->uploads()));
    PACELINE_RETURN_IF_ERROR(send_whole(place.sample_ids, gpu_->uploads()));
  }
  PACELINE_CUDA(cudaEventRecord(place.uploaded.get(), gpu_->uploads()));
  return Status::ok();
}

Status SampleBuffers::send_images(const Batch& batch, PlacedSamples& place, bool pinned) const {
  const std::span<const float> images = batch.images;
  if (!pinned) std::copy(images.begin(), images.end(), place.staging.data());
  const float* const from = pinned ? images.data() : place.staging.data();
  PACELINE_CUDA(cudaMemcpyAsync(place.images.data(), from, images.size_bytes(), cudaMemcpyHostToDevice,
                                gpu_->uploads()));
  const std::span<float> left = place.images.all().subspan(images.size());
  if (left.empty()) return Status::ok();
  PACELINE_CUDA(cudaMemsetAsync(left.data(), 0, left.size_bytes(), gpu_->uploads()));
  return Status::ok();
}

}  // namespace paceline::cuda
