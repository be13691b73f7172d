#include "common/config/layers.h"

#include <optional>

#include "common/config/document.h"
#include "common/config/schema.h"

namespace paceline {

using config::Fault;
using config::format_error;

Result<std::vector<LayerConfig>> parse_layers(const std::string& text, const std::string& source) {
  PACELINE_ASSIGN_OR_RETURN(const config::Value document, config::read_document("layers: " + text, source));
  const config::Value& list = document.items.front();
  if (document.items.size() != 1 || list.kind != config::Value::Kind::kList) {
    return invalid_argument(
        format_error(list.place, "layers", "wrong type", describe(list), "a list of layers in one line"));
  }
  RunConfig holder;
  const config::Key* const key = config::schema().find("train.layers");
  if (const std::optional<Fault> wrong = key->read(list, holder)) {
    return invalid_argument(
        format_error(wrong->place, "layers" + wrong->within, wrong->what, wrong->got, wrong->expected));
  }
  return std::move(holder.train.layers);
}

}  // namespace paceline
