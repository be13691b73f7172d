// What the back ends of one training thread find on its GPU: the training set, if it is kept there, and the
// thread cache (device_vectors.h), which has the parameters and wants the gradient.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "worker/model/cuda/resident_data.h"
#include "worker/model/loss_scaler.h"

namespace paceline::cuda {

// In the places of placed_network.h. Thread: the training thread.
struct ThreadModel {
  std::shared_ptr<const ResidentData> data;  // the training set on the GPU; null: it comes from the host

  float* parameters = nullptr;  // on the GPU; null: they come from the host with each call
  // The last gradient that was computed: on the GPU until the next is, and where it went on the host, and is
  // not written to before it has been kept.
  const float* gradient = nullptr;
  const float* gradient_on_host = nullptr;

  LossScaler loss_scaler;  // of all its back ends; used with float16 alone

  // Called once all passes that were made before a step have been done.
  std::function<void()> passes_done = [] {};
  // For how long they went on when their step had begun already, since this was read; a step in parts adds up.
  std::chrono::nanoseconds device_overlap{0};
};

}  // namespace paceline::cuda
