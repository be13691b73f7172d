// The device that a server applies decisions on instead of its processor (`server.device`), as the store sees
// it: vectors that live there, and steps that are put in and waited for once. Nothing of CUDA is in here;
// what implements it is in server/cuda and is loaded when a run asks for it (server/gpu_module.h). What is
// put in, and when, is device_apply.h's.
//
//   host                                  device
//   gradients, as they came   ── send ──► places, each for one gradient
//                                           │ add: into a sum (combine: mean)
//                                           ▼ step: the optimizer's
//   fresh blocks              ◄─ fetch ── parameters, and the optimizer's state
//
// Three things go on at once: what is sent, what is computed, what is fetched. Each is in turn in itself; a
// step or an add is behind all that was sent before it, a fetch behind all that was to be computed before it.
// What a place holds is to be sent behind begin() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>

#include "common/config/run_config.h"
#include "common/params/partition.h"
#include "common/params/shared_floats.h"
#include "common/params/step_factors.h"
#include "common/status.h"

namespace paceline::server {

// What lives there from decision to decision, each of the shard's size: momentum's u or Adam's m is the
// first, Adam's v the second.
enum class DeviceVector { kParameters, kFirst, kSecond };

enum class DeviceSum { kBegins, kGoesOn };

// What a step makes the gradient of a place into first, the last one of a mean: (sum + weight x gradient) x
// share, without the sum where it is the only one.
struct DeviceMean {
  DeviceSum sum = DeviceSum::kBegins;
  float weight = 1.0F;
  float share = 1.0F;
};

// The optimizer's step on elements that begin a gradient: Adam's `t` counts them from 1.
struct DeviceStep {
  double learning_rate = 0.0;
  std::int64_t t = 1;
  std::optional<DeviceMean> mean{};
};

// A shard's vectors on a device. Offsets count from the range's begin, in floats. Errors, of any call: what
// failed, by its name and its reason, perhaps of an earlier call; this device is of no use then, but drain()
// it.
// Thread: one at a time (the server's loop).
class ShardDevice {
 public:
  // Waits for what is under way.
  virtual ~ShardDevice() = default;

  // How many gradients it has places for: at least one.
  virtual std::size_t places() const = 0;

  // Values for `vector`. They must stay as they are until finish(). What is never loaded is undefined of the
  // parameters and 0 of the others.
  [[nodiscard]] virtual Status load(DeviceVector vector, std::int64_t offset,
                                    std::span<const float> values) = 0;

  // Another gradient is to be sent to `place`.
  [[nodiscard]] virtual Status begin(std::size_t place) = 0;
  // Its elements from `offset` on. Returns before they are there, where the device reads such memory by
  // itself, and then keeps `values`; else it has read them.
  [[nodiscard]] virtual Status send(std::size_t place, std::int64_t offset, SharedFloats values) = 0;
  // Nothing that was sent is being read any more, or kept. Waits for it.
  [[nodiscard]] virtual Status settle() = 0;

  // The sum's `part` begins with, or gets, weight x the gradient in `place`, of which that part was sent.
  [[nodiscard]] virtual Status add(std::size_t place, Range part, float weight, DeviceSum sum) = 0;
  // A step of the parameters' `part` with the gradient in `place`, of which that part was sent.
  [[nodiscard]] virtual Status step(std::size_t place, Range part, const DeviceStep& step) = 0;

  // Elements from `offset` on into `to`, which is there to be read behind finish().
  [[nodiscard]] virtual Status fetch(DeviceVector vector, std::int64_t offset, std::span<float> to) = 0;
  // Waits until all that was loaded is read, and all that was to be computed and fetched is done. What is
  // still being sent goes on, unless a step has been put in behind it.
  [[nodiscard]] virtual Status finish() = 0;

  // Waits for all that is under way, whatever comes of it: no memory of the host is used any more.
  virtual void drain() = 0;
};

// What a shard needs of a device.
struct DeviceShard {
  std::int64_t floats = 0;
  OptimizerSection optimizer;
  FactorRanges factors{};
  bool adds = false;  // decisions may be means of several gradients (ShardDevice::add())
  // For how many gradients places would be of use; there are fewer where the device's memory is short.
  std::size_t gradients = 1;
};

// One device of this machine, open. Thread: any, but for make_shard().
class ServerDevice {
 public:
  virtual ~ServerDevice() = default;

  // Errors: kResourceExhausted when it has no room for the shard, kUnavailable or kInternal, naming the
  // device, the call that failed and why. Thread: the one that uses the shard.
  virtual Result<std::unique_ptr<ShardDevice>> make_shard(const DeviceShard& shard) = 0;

  // Memory from `upstream` (null: the heap) that the device reads and writes by itself; handed out as it is
  // where that cannot be.
  virtual std::shared_ptr<std::pmr::memory_resource> page_locked(
      std::shared_ptr<std::pmr::memory_resource> upstream) = 0;

  // Has the device read `pages` by itself, whole ones that are never written here, for as long as what is
  // returned lives, which is no longer than they are mapped. Errors: why it does not, and no harm is done.
  virtual Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) = 0;
};

}  // namespace paceline::server
