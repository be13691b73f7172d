#include "worker/model/layers/onednn_loss.h"
#include "worker/model/layers/softmax_loss/rows.h"

namespace paceline::layers::softmax_loss {

extern const onednn::OnednnKind kOnednn{.make = onednn::made<onednn::OnednnLoss<SoftmaxLoss>>,
                                        .by_shape = true};

}  // namespace paceline::layers::softmax_loss
