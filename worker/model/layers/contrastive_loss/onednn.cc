#include "worker/model/layers/contrastive_loss/rows.h"
#include "worker/model/layers/onednn_loss.h"

namespace paceline::layers::contrastive_loss {

extern const onednn::OnednnKind kOnednn{.make = onednn::made<onednn::OnednnLoss<ContrastiveLoss>>,
                                        .by_shape = true};

}  // namespace paceline::layers::contrastive_loss
