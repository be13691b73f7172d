// What each thread's gradient weighs in a node's sums: how many samples it is the mean over, so that the mean of all is
// one over all samples. Counted in mini-batches of the configuration's size, 1 in nearly every round, which changes no
// bit.
//
// A gradient may leave while it is computed, before anybody has said of how many samples it is. It is then taken for
// one of as many as the thread's last one. Where that was wrong, for any thread of any node, the round is summed once
// more:
//
//   batch_size 8, two nodes, mini-batches of 8 8 5 samples
//     8 8    weights 1 and 1        sum / 2
//     5 5    taken for 1 and 1; once more with 5/8 and 5/8, of 10 samples: sum x 8 / 10
//     8 8    taken for 5/8 and 5/8; once more with 1 and 1
//
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace paceline {

class SampleWeights {
 public:
  using Samples = std::vector<
      std::optional<std::int64_t>>;  // by thread; nullopt: nobody has said yet, 0: they do not count

  // `usual`: of a round, as configured.
  SampleWeights(std::uint32_t threads, std::int64_t usual) : usual_(usual), taken_for_(threads, usual) {}

  // A round's sums begin.
  void begin(const Samples& known) { take(known); }
  // Its last sum begins, and all are known. Whether some were taken for others.
  bool end(const Samples& known) { return take(known); }

  // Of a thread's gradient.
  double of(std::size_t thread) const {
    return static_cast<double>(taken_for_[thread]) / static_cast<double>(usual_);
  }
  std::int64_t samples() const { return std::reduce(taken_for_.begin(), taken_for_.end()); }
  std::int64_t usual() const { return usual_; }

 private:
  bool take(const Samples& known) {
    bool were_others = false;
    for (std::size_t thread = 0; thread < taken_for_.size(); ++thread) {
      const std::int64_t samples = known[thread].value_or(0);
      if (samples == 0) continue;
      were_others = were_others || samples != taken_for_[thread];
      taken_for_[thread] = samples;
    }
    return were_others;
  }

  std::int64_t usual_;
  std::vector<std::int64_t> taken_for_;  // by thread
};

}  // namespace paceline
