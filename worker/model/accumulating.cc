#include "worker/model/accumulating.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "common/accumulated_parts.h"
#include "common/params/vector_ops.h"

namespace paceline {
namespace {

// Samples [first, first + n).
Batch part_of(const Batch& batch, std::int64_t first, std::int64_t n) {
  const auto cut = [&](const auto& all) {
    const auto each = all.size() / batch.labels.size();  // 0 where there are none
    return all.subspan(each * static_cast<std::size_t>(first), each * static_cast<std::size_t>(n));
  };
  return {cut(batch.images), cut(batch.labels), cut(batch.sample_ids), cut(batch.epochs)};
}

class AccumulatingBackend final : public NetworkBackend {
 public:
  AccumulatingBackend(const NetworkSpec& network, std::int64_t batch_size, std::int64_t part_size,
                      std::unique_ptr<NetworkBackend> backend)
      : network_(network),
        batch_size_(batch_size),
        part_size_(part_size),
        backend_(std::move(backend)),
        of_part_(static_cast<std::size_t>(network.layout.size())) {}

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_RETURN_IF_ERROR(check_whole(batch, keys_needed(network_)));
    const std::optional<Batch> after = std::exchange(next_, std::nullopt);
    Metric whole;
    std::int64_t n = 0;
    for (std::int64_t first = 0; first < batch.size(); first += n) {
      n = next_part(batch.size() - first, part_size_);
      const float weight = static_cast<float>(n) / static_cast<float>(batch.size());
      std::int64_t added_from = std::ssize(of_part_);
      const auto add_from = [&](std::int64_t begin) {
        const auto at = static_cast<std::size_t>(begin);
        const auto floats = static_cast<std::size_t>(added_from - begin);
        const std::span<float> sum = gradient.subspan(at, floats);
        const std::span<const float> part = std::span<const float>(of_part_).subspan(at, floats);
        first == 0 ? begin_sum(sum, part, weight) : add_weighted(sum, part, weight);
        added_from = begin;
      };
      const bool last = first + n == batch.size();
      if (!last) {
        backend_->predict(part_of(batch, first + n, next_part(batch.size() - first - n, part_size_)));
      } else if (after) {
        backend_->predict(part_of(*after, 0, next_part(after->size(), part_size_)));
      }
      const FinalFrom of_last = [&](std::int64_t begin) {
        if (begin >= added_from) return;  // says nothing new
        add_from(begin);
        final_from(begin);
      };
      PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                                backend_->gradient(parameters, part_of(batch, first, n), of_part_,
                                                   last ? of_last : FinalFrom(whole_at_the_end)));
      add_from(0);
      whole += metric;
    }
    return whole;
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_whole(batch, DropoutKeys::kIgnored));
    Metric whole;
    std::int64_t n = 0;
    for (std::int64_t first = 0; first < batch.size(); first += n) {
      n = next_part(batch.size() - first, part_size_);
      PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                                backend_->evaluate(parameters, part_of(batch, first, n)));
      whole += metric;
    }
    return whole;
  }

  void predict(const Batch& next) override {
    next_ = check_whole(next, keys_needed(network_)).is_ok() ? std::optional(next) : std::nullopt;
  }
  Status forget() override {
    next_.reset();
    return backend_->forget();
  }

 private:
  // Images may be left out where the back end has them, which each part is asked for.
  Status check_whole(const Batch& batch, DropoutKeys keys) const {
    return check_batch(network_, batch, batch_size_, keys, std::numeric_limits<std::int64_t>::max());
  }

  const NetworkSpec network_;
  const std::int64_t batch_size_;
  const std::int64_t part_size_;
  const std::unique_ptr<NetworkBackend> backend_;
  std::vector<float> of_part_;
  std::optional<Batch> next_;  // the next mini-batch, as predicted
};

}  // namespace

MakeBackend accumulating(MakeBackend make, std::int64_t parts) {
  if (parts == 1) return make;
  return [make = std::move(make), parts](const NetworkSpec& network, std::int64_t batch_size,
                                         std::uint64_t seed) -> Result<std::unique_ptr<NetworkBackend>> {
    const std::int64_t part_size = largest_part(batch_size, parts);
    PACELINE_ASSIGN_OR_RETURN(auto backend, make(network, part_size, seed));
    return std::unique_ptr<NetworkBackend>(
        std::make_unique<AccumulatingBackend>(network, batch_size, part_size, std::move(backend)));
  };
}

}  // namespace paceline
