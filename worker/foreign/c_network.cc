// The built-in network in the C interface (include/paceline/paceline.h), over foreign_network.h.
#include <algorithm>
#include <span>
#include <utility>

#include "worker/foreign/c_calls.h"
#include "worker/foreign/foreign_network.h"

using namespace paceline;

namespace {

// Of a caller's array; a negative count is refused by what reads the span, as one of no elements.
template <typename T>
std::span<T> span_of(T* begin, std::int64_t count) {
  return {begin, static_cast<std::size_t>(std::max<std::int64_t>(count, 0))};
}

Status open(const char* layers, const std::int64_t* input, std::int64_t batch_size, std::uint64_t seed,
            paceline_network** network) {
  if (network == nullptr) return invalid_argument("paceline_network_open: got no place for the network");
  *network = nullptr;
  if (layers == nullptr || input == nullptr) {
    return invalid_argument("paceline_network_open: expected layers, and the three sizes of a sample");
  }
  PACELINE_ASSIGN_OR_RETURN(auto made,
                            ForeignNetwork::open(layers, {input[0], input[1], input[2]}, batch_size, seed));
  *network = new paceline_network{std::move(made)};
  return Status::ok();
}

// More than there may be is refused before it is looked at.
std::span<const float> samples_of(const ForeignNetwork& network, const float* samples, std::int64_t count) {
  return span_of(samples, std::clamp<std::int64_t>(count, 0, kForeignBatchMax) * network.spec().input.size());
}

void write(const Metric& from, paceline_metric* to) { *to = {from.loss_sum, from.correct, from.samples}; }

}  // namespace

paceline_code paceline_network_open(const char* layers, const std::int64_t* input, std::int64_t batch_size,
                                    std::uint64_t seed, paceline_network** network) {
  return guarded([&] { return open(layers, input, batch_size, seed, network); });
}

std::int64_t paceline_network_floats(const paceline_network* network) {
  return network->network->spec().layout.size();
}

std::int64_t paceline_network_classes(const paceline_network* network) {
  return network->network->spec().classes;
}

paceline_code paceline_network_initialize(paceline_network* network, float* parameters) {
  return guarded([&]() -> Status {
    network->network->initialize(span_of(parameters, paceline_network_floats(network)));
    return Status::ok();
  });
}

paceline_code paceline_network_gradient(paceline_network* network, const float* parameters,
                                        const float* samples, const std::int64_t* labels, std::int64_t count,
                                        std::int64_t position, float* gradient, paceline_metric* metric) {
  return guarded([&]() -> Status {
    const std::int64_t floats = paceline_network_floats(network);
    PACELINE_ASSIGN_OR_RETURN(
        const Metric measured,
        network->network->gradient(span_of(parameters, floats), samples_of(*network->network, samples, count),
                                   span_of(labels, count), position, span_of(gradient, floats)));
    write(measured, metric);
    return Status::ok();
  });
}

paceline_code paceline_network_evaluate(paceline_network* network, const float* parameters,
                                        const float* samples, const std::int64_t* labels, std::int64_t count,
                                        paceline_metric* metric) {
  return guarded([&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(
        const Metric measured,
        network->network->evaluate(span_of(parameters, paceline_network_floats(network)),
                                   samples_of(*network->network, samples, count), span_of(labels, count)));
    write(measured, metric);
    return Status::ok();
  });
}

void paceline_network_close(paceline_network* network) { delete network; }
