#include "worker/model/layers/maximum/elements.h"
#include "worker/model/layers/onednn_elements.h"

namespace paceline::layers::maximum {

extern const onednn::OnednnKind kOnednn{.make = onednn::made<onednn::Elements<Maximum>>, .by_shape = true};

}  // namespace paceline::layers::maximum
