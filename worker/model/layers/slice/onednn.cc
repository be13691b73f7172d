#include <cstring>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::slice {
namespace {

using namespace onednn;

// Row-major, so that what is cut out is one piece of each sample.
class Slice final : public OnednnLayer {
 public:
  Slice(const Layer& layer, std::int64_t samples)
      : samples_(samples),
        in_(dims_of(samples, layer.in)),
        out_(dims_of(samples, layer.out)),
        in_floats_(static_cast<std::size_t>(layer.in.size())),
        out_floats_(static_cast<std::size_t>(layer.out.size())),
        first_(static_cast<std::size_t>(layer.first_channel * layer.in.height * layer.in.width)) {}

  memory forward(Program& program, const Surroundings& around) override {
    const memory source = program.in_format(Pass::kForward, around.sources[0], plain(in_));
    memory output = program.make(plain(out_));
    program.append_loop(Pass::kForward, {{&source, 1}, {&output, 1}}, [this, source, output] {
      for (std::int64_t n = 0; n < samples_; ++n) {
        const auto at = static_cast<std::size_t>(n);
        std::memcpy(floats_of(output) + at * out_floats_, floats_of(source) + at * in_floats_ + first_,
                    out_floats_ * sizeof(float));
      }
    });
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory read = program.in_format(Pass::kBackward, difference, plain(out_));
    memory result = program.make(plain(in_));
    // The others' differences are added to it, so that its zeros are made again at each step.
    program.append_loop(Pass::kBackward, {{&read, 1}, {&result, 1}}, [this, read, result] {
      std::memset(floats_of(result), 0, result.get_desc().get_size());
      for (std::int64_t n = 0; n < samples_; ++n) {
        const auto at = static_cast<std::size_t>(n);
        std::memcpy(floats_of(result) + at * in_floats_ + first_, floats_of(read) + at * out_floats_,
                    out_floats_ * sizeof(float));
      }
    });
    return {result};
  }

 private:
  const std::int64_t samples_;
  const Dims in_;
  const Dims out_;
  const std::size_t in_floats_;  // of a sample
  const std::size_t out_floats_;
  const std::size_t first_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<Slice>, .by_shape = true};

}  // namespace paceline::layers::slice
