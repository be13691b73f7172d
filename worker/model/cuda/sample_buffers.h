// Where a mini-batch lies on the GPU, and how it comes there from the host. There are two places. A step
// reads the one in front; what will probably be the next mini-batch goes to the other one meanwhile, in a
// stream of its own:
//
//   uploads   1 to A | 2 to B             | 3 to A             | 4 to B, but 9 comes: 9 to A
//   compute          | step 1, A in front | step 2, B in front | step 3, A in front          | step 9, A
//
// Who owns what: pinned images (page_locked.h) are read where they lie. Their memory is the caller's, and is
// read until the step of this mini-batch is over or forget() has returned. Images from other memory, and all
// that is small, are copied first, into pinned memory that belongs to the place they go to. That memory is
// written again only when the place is: then no upload to it is under way and no step reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "worker/model/batch.h"
#include "worker/model/cuda/gpu_thread.h"

namespace paceline::cuda {

// Whether it is said, too, which samples they are.
enum class Keys { kLeftOut, kSent };

// A mini-batch on the GPU: as many samples as the back end was built for, those that only fill it up being
// zeros.
struct PlacedSamples {
  DeviceMemory<float> images;
  Staged<Label> labels;
  Staged<std::int64_t> epochs;
  Staged<std::int64_t> sample_ids;
  PinnedMemory<float> staging;  // of images from memory that is not pinned; made when the first come
  Event uploaded;               // the last that was sent here is here
};

// Thread: the one whose GPU it is. What has failed may leave uploads under way: who is told waits for the
// stream, and calls drop().
class SampleBuffers {
 public:
  // For mini-batches of up to `samples`, of images of `floats` each. `gpu` outlives them.
  Status make(const GpuThread& gpu, std::int64_t samples, std::int64_t floats);

  // What steps read, and which of the two places that is.
  const PlacedSamples& front() const { return places_[front_]; }
  std::size_t front_index() const { return front_; }

  // Has `batch`, with images, in front, and the compute stream wait until it is there. The step before is
  // over. `keys` is the same for all that are predicted and their steps.
  Status bring(const Batch& batch, Keys keys);

  // NetworkBackend::predict(), of one that bring() would take, or of none.
  void predict(const std::optional<Batch>& next) { noted_ = next; }
  // Begins to send what is predicted to the place behind, if there is something and it is not there yet. Where
  // the GPU has no room for a second place, nothing is ever sent ahead.
  Status send_ahead(Keys keys);
  // NetworkBackend::forget().
  Status forget();
  // Forgets, when nothing is under way any more.
  void drop();

  // The names of `batch`'s samples into the pinned memory of the place in front, for who sends them itself.
  void stage_keys(const Batch& batch) const { stage_keys(batch, front()); }

 private:
  PlacedSamples& behind() { return places_[1 - front_]; }
  Status make(PlacedSamples& place) const;
  Status make_staging(PlacedSamples& place) const;
  Status make_behind(bool images_are_pinned);
  static void stage_keys(const Batch& batch, const PlacedSamples& place);
  // Images that are not pinned take the detour of the place's staging, which is there.
  Status send(const Batch& batch, Keys keys, PlacedSamples& place, bool pinned) const;
  Status send_images(const Batch& batch, PlacedSamples& place, bool pinned) const;

  const GpuThread* gpu_ = nullptr;
  std::int64_t samples_ = 0;
  std::int64_t floats_ = 0;              // of all images of a place
  std::array<PlacedSamples, 2> places_;  // the second is made when something is first predicted
  std::size_t front_ = 0;
  bool has_one_place_ = false;       // there is no room for the second
  std::optional<Batch> noted_;       // predicted,
  std::optional<Batch> sent_ahead_;  // and on its way to the place behind, or there
};

}  // namespace paceline::cuda
