#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::add {
namespace {

using namespace onednn;

class Add final : public OnednnLayer {
 public:
  explicit Add(const Layer& layer) : coefficients_(layer.coefficients.begin(), layer.coefficients.end()) {}

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
    if (coefficients_.empty()) coefficients_.assign(descs.size(), 1.0F);
    program.append<dnnl::sum>(Pass::kForward, describe::sum(program.engine(), desc, coefficients_, descs),
                              std::move(arguments));
    return output;
  }

  // The first source that wants it as it is takes the difference itself, the others have copies.
  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    std::vector<memory> differences(wanted.size());
    bool given = false;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (!wanted[k]) continue;
      if (coefficients_[k] != 1.0F) {
        differences[k] = scaled(program, difference, coefficients_[k]);
      } else if (given) {
        differences[k] = program.make(difference.get_desc());
        program.append_reorder(Pass::kBackward, difference, differences[k]);
      } else {
        differences[k] = difference;
        given = true;
      }
    }
    return differences;
  }

 private:
  static memory scaled(Program& program, const memory& difference, float by) {
    const memory::desc desc = difference.get_desc();
    memory result = program.make(desc);
    const auto linear = describe::eltwise(program.engine(), dnnl::algorithm::eltwise_linear, desc, by);
    program.append<dnnl::eltwise_forward>(Pass::kBackward, linear,
                                          {{DNNL_ARG_SRC, difference}, {DNNL_ARG_DST, result}});
    return result;
  }

  std::vector<float> coefficients_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<Add>, .narrow = true, .by_shape = true};

}  // namespace paceline::layers::add
