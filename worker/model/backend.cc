#include "worker/model/backend.h"

#include <string>
#include <utility>

#include "common/config/names.h"
#include "worker/model/onednn.h"
#include "worker/model/reference.h"

namespace paceline {

Result<std::unique_ptr<NetworkBackend>> make_backend(Backend kind, NetworkSpec network,
                                                     std::int64_t batch_size, std::uint64_t seed,
                                                     NormGroup* norm_group, Precision precision) {
  if (batch_size < 1) {
    return invalid_argument("batch size " + std::to_string(batch_size) + ", expected at least 1");
  }
  PACELINE_RETURN_IF_ERROR(check_precision(kind, precision));
  switch (kind) {
    case Backend::kReference:
      return make_reference_backend(
          std::move(network), batch_size, seed,
          precision == Precision::kBf16 ? Activations::kBfloat16 : Activations::kDouble, norm_group);
    case Backend::kOnednn:
      return make_onednn_backend(std::move(network), batch_size, seed, norm_group, precision);
  }
  return invalid_argument("unknown back end " + std::to_string(static_cast<int>(kind)));
}

Status check_precision(Backend kind, Precision precision) {
  if (precision == Precision::kTf32 || precision == Precision::kFp16) {
    return invalid_argument(std::string("train.precision: only a GPU has it, got ") + name_of(precision) +
                            ", expected fp32 or bf16");
  }
  return kind == Backend::kOnednn ? check_onednn_precision(precision) : Status::ok();
}

}  // namespace paceline
