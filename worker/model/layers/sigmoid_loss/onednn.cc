#include "worker/model/layers/onednn_loss.h"
#include "worker/model/layers/sigmoid_loss/rows.h"

namespace paceline::layers::sigmoid_loss {

extern const onednn::OnednnKind kOnednn{.make = onednn::made<onednn::OnednnLoss<SigmoidLoss>>,
                                        .by_shape = true};

}  // namespace paceline::layers::sigmoid_loss
