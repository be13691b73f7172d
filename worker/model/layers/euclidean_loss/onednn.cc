#include "worker/model/layers/euclidean_loss/rows.h"
#include "worker/model/layers/onednn_loss.h"

namespace paceline::layers::euclidean_loss {

extern const onednn::OnednnKind kOnednn{.make = onednn::made<onednn::OnednnLoss<EuclideanLoss>>,
                                        .by_shape = true};

}  // namespace paceline::layers::euclidean_loss
