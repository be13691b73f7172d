// The library has two averages: over the pixels inside the image alone, which is Caffe's where there is no
// padding; and over all places of a window, which is Caffe's but for windows that hang over the padded image.
// The outputs of those, a row and a column, are multiplied by what the two differ by. The library could multiply by a
// picture of factors, but takes a hundred times as long for it as for the pool.
#include <cstddef>
#include <optional>
#include <vector>

#include "worker/model/layers/average_pool/divisor.h"
#include "worker/model/layers/onednn_layer.h"
#include "worker/model/layers/onednn_window.h"

namespace paceline::layers::average_pool {
namespace {

using namespace onednn;
using dnnl::algorithm;
using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

class AveragePool final : public OnednnLayer {
 public:
  AveragePool(const Layer& layer, std::int64_t samples)
      : layer_(layer),
        out_(dims_of(samples, layer.out)),
        algorithm_(layer.padding == 0 ? algorithm::pooling_avg_exclude_padding
                                      : algorithm::pooling_avg_include_padding) {}

  memory forward(Program& program, const Surroundings& around) override {
    const memory& source = around.sources[0];
    source_ = source.get_desc();
    forward_ = describe::pool(program.engine(), algorithm_, source_, any(out_, Type::f32), window_of(layer_));
    const memory output = program.make(forward_->dst_desc());
    program.append<Forward>(Pass::kForward, *forward_, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output}});
    if (layer_.padding > 0 && padding_after(layer_) != padding_of(layer_)) {
      find_corrections(program, output.get_desc());
      correct(program, Pass::kForward, output);
    }
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory read = program.in_format(Pass::kBackward, difference, forward_->dst_desc());
    if (!corrections_.empty()) correct(program, Pass::kBackward, read);
    memory result = program.make(source_);
    const auto backward = describe::pool_backward(program.engine(), *forward_, algorithm_, source_,
                                                  read.get_desc(), window_of(layer_));
    program.append<Backward>(Pass::kBackward, backward,
                             {{DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_SRC, result}});
    return {result};
  }

 private:
  struct Correction {
    std::size_t at;  // of the floats of the output as it lies
    float factor;    // kernel^2 / divisor
  };

  // Where they lie is asked of a picture of the factors in the output's format.
  void find_corrections(Program& program, const memory::desc& desc) {
    memory in_order(plain(out_), program.engine());
    float* factor = floats_of(in_order);
    for (std::int64_t n = 0; n < out_[0] * out_[1]; ++n) {
      for (std::int64_t y = 0; y < layer_.out.height; ++y) {
        for (std::int64_t x = 0; x < layer_.out.width; ++x) {
          *factor++ =
              static_cast<float>(layer_.kernel * layer_.kernel) / static_cast<float>(divisor(layer_, y, x));
        }
      }
    }
    memory as_it_lies(desc, program.engine());
    dnnl::stream stream(program.engine());
    dnnl::reorder(in_order, as_it_lies).execute(stream, in_order, as_it_lies);
    stream.wait();
    const std::size_t floats = desc.get_size() / sizeof(float);
    for (std::size_t i = 0; i < floats; ++i) {
      const float found = floats_of(as_it_lies)[i];
      if (found > 1.0F) corrections_.push_back({i, found});  // what fills up blocks is 0
    }
  }

  void correct(Program& program, Pass pass, const memory& values) {
    program.append_loop(pass, {{&values, 1}}, [this, values] {
      float* const value = floats_of(values);
      for (const Correction& each : corrections_) value[each.at] *= each.factor;
    });
  }

  const Layer& layer_;
  const Dims out_;
  const algorithm algorithm_;
  memory::desc source_;
  std::vector<Correction> corrections_;
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<AveragePool>};

}  // namespace paceline::layers::average_pool
