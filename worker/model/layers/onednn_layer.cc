#include "worker/model/layers/onednn_layer.h"

#include <string>

#include "common/assert.h"

namespace paceline {

#define PACELINE_DECLARE(key, name, on_gpu) \
  namespace layers::name {                  \
  extern const onednn::OnednnKind kOnednn;  \
  }
PACELINE_LAYER_KINDS(PACELINE_DECLARE)
#undef PACELINE_DECLARE

const onednn::OnednnKind& onednn::onednn_kind(LayerKind kind) {
  switch (kind) {
#define PACELINE_CASE(key, name, on_gpu) \
  case LayerKind::key:                   \
    return layers::name::kOnednn;
    PACELINE_LAYER_KINDS(PACELINE_CASE)
#undef PACELINE_CASE
  }
  PACELINE_ASSERT(false, "layer kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace paceline
