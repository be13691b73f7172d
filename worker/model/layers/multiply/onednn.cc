#include "worker/model/layers/multiply/elements.h"
#include "worker/model/layers/onednn_elements.h"

namespace paceline::layers::multiply {

extern const onednn::OnednnKind kOnednn{.make = onednn::made<onednn::Elements<Multiply>>, .by_shape = true};

}  // namespace paceline::layers::multiply
