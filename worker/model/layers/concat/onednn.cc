// Each source is copied to its channels of the output, and its difference back from there.
#include <algorithm>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::concat {
namespace {

using namespace onednn;

class Concat final : public OnednnLayer {
 public:
  Concat(const Layer& layer, std::int64_t samples) : out_(dims_of(samples, layer.out)) {}

  memory forward(Program& program, const Surroundings& around) override {
    for (const memory& source : around.sources) sources_.push_back(source.get_desc());
    output_ = program.make(output_desc());
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      program.append_reorder(Pass::kForward, around.sources[k], part(program, output_, k));
    }
    return output_;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    const memory whole = program.in_format(Pass::kBackward, difference, output_.get_desc());
    std::vector<memory> differences(wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (!wanted[k]) continue;
      differences[k] = program.make(sources_[k]);
      program.append_reorder(Pass::kBackward, part(program, whole, k), differences[k]);
    }
    return differences;
  }

 private:
  // In blocks of channels where all sources are, and fill them; else row-major.
  memory::desc output_desc() const {
    using Tag = memory::format_tag;
    for (const auto& [tag, block] : {std::pair{Tag::nChw16c, 16}, std::pair{Tag::nChw8c, 8}}) {
      const bool all =
          std::all_of(sources_.begin(), sources_.end(), [&, t = tag, b = block](const auto& desc) {
            const Dims dims = onednn::dims_of(desc);
            return dims[1] % b == 0 && desc == memory::desc(dims, memory::data_type::f32, t);
          });
      if (all) return {out_, memory::data_type::f32, tag};
    }
    return plain(out_);
  }

  // Of memory as large as the output, the channels of source k.
  memory part(Program& program, const memory& whole, std::size_t k) const {
    Dims offsets(out_.size(), 0);
    for (std::size_t i = 0; i < k; ++i) offsets[1] += onednn::dims_of(sources_[i])[1];
    return program.view(whole, whole.get_desc().submemory_desc(onednn::dims_of(sources_[k]), offsets));
  }

  const Dims out_;
  std::vector<memory::desc> sources_;
  memory output_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<Concat>, .by_shape = true};

}  // namespace paceline::layers::concat
