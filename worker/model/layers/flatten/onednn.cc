#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::flatten {

extern const onednn::OnednnKind kOnednn{.make = nullptr, .is_nothing = true};

}  // namespace paceline::layers::flatten
