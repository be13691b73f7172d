#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::add {
namespace {

using namespace onednn;

class Add final : public OnednnLayer {
 public:
  memory forward(Program& program, const Surroundings& around) override {
    const memory::desc desc = around.sources[0].get_desc();
    const memory output = around.source_is_free ? around.sources[0] : program.make(desc);
    Arguments arguments{{DNNL_ARG_DST, output}};
    std::vector<memory::desc> descs;
    for (const memory& source : around.sources) {
      const int index = DNNL_ARG_MULTIPLE_SRC + static_cast<int>(descs.size());
      arguments.emplace(index, program.in_format(Pass::kForward, source, desc));
      descs.push_back(desc);
    }
    const std::vector<float> ones(descs.size(), 1.0F);
    program.append<dnnl::sum>(Pass::kForward, {desc, ones, descs, program.engine(), Program::attributes()},
                              std::move(arguments));
    return output;
  }

  // The first source that wants it takes the difference itself, the others have copies.
  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    std::vector<memory> differences(wanted.size());
    bool given = false;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (!wanted[k]) continue;
      differences[k] = difference;
      if (given) {
        differences[k] = program.make(difference.get_desc());
        program.append_reorder(Pass::kBackward, difference, differences[k]);
      }
      given = true;
    }
    return differences;
  }
};

std::unique_ptr<OnednnLayer> make(const Layer&, std::size_t, std::int64_t) { return std::make_unique<Add>(); }

}  // namespace

extern const OnednnKind kOnednn{.make = make, .by_shape = true};

}  // namespace paceline::layers::add
