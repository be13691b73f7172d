#include "common/config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

namespace paceline::config {
namespace {

constexpr int kDepthMax = 8;       // the deepest key, train.optimizer.schedule.kind, needs 4
constexpr int kValuesMax = 20000;  // aliases can multiply a small text without bound

// Turns yaml-cpp's nodes into Values. Throws nothing of its own; the first fault is kept.
class Converter {
 public:
  Converter(std::string source, bool has_lines) : source_(std::move(source)), has_lines_(has_lines) {}

  Value convert(const YAML::Node& node, const Place& place, const std::string& key, int depth) {
    Value value;
    value.place = place;
    if (depth > kDepthMax || ++values_ > kValuesMax) {
      fail(place, key, "too large or too deeply nested",
           "more than " + std::to_string(kValuesMax) + " values or " + std::to_string(kDepthMax) + " levels",
           "a configuration; are there aliases that repeat themselves?");
      return value;
    }
    if (node.IsScalar()) {
      value.kind = Value::Kind::kScalar;
      value.text = node.Scalar();
      value.quoted = node.Tag() == "!";  // yaml-cpp's mark of a quoted scalar
    } else if (node.IsSequence()) {
      value.kind = Value::Kind::kList;
      for (const auto& item : node) {
        if (!fault_.is_ok()) return value;
        const std::string item_key = key + "[" + std::to_string(value.items.size()) + "]";
        value.items.push_back(convert(item, place_of(item, place), item_key, depth + 1));
      }
    } else if (node.IsMap()) {
      value.kind = Value::Kind::kMap;
      for (const auto& member : node) {
        if (!fault_.is_ok()) return value;
        add_member(value, member.first, member.second, key, depth);
      }
    }
    return value;
  }

  const Status& fault() const { return fault_; }

  Place place_of(const YAML::Node& node, const Place& otherwise) const {
    const YAML::Mark mark = node.Mark();
    return mark.is_null() || !has_lines_ ? otherwise : Place{source_, mark.line + 1};
  }

 private:
  void add_member(Value& map, const YAML::Node& name, const YAML::Node& node, const std::string& key,
                  int depth) {
    const Place place = place_of(name, map.place);
    if (!name.IsScalar()) {
      fail(place, key, "wrong key", "a key that is not a word", "a name");
      return;
    }
    const std::string member_key = key.empty() ? name.Scalar() : key + "." + name.Scalar();
    const auto before = std::find(map.names.begin(), map.names.end(), name.Scalar());
    if (before != map.names.end()) {
      const Value& first = map.items[static_cast<std::size_t>(before - map.names.begin())];
      fail(place, member_key, "duplicate key", "it a second time",
           "it once (first at " + to_string(first.place) + ")");
      return;
    }
    map.names.push_back(name.Scalar());
    map.items.push_back(convert(node, place, member_key, depth + 1));
  }

  void fail(const Place& place, const std::string& key, const std::string& what, const std::string& got,
            const std::string& expected) {
    if (fault_.is_ok()) fault_ = invalid_argument(format_error(place, key, what, got, expected));
  }

  std::string source_;
  bool has_lines_;
  int values_ = 0;
  Status fault_;
};

// Where documents begin.
class Starts final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { marks.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

  std::vector<YAML::Mark> marks;
};

// The one document of a text, a null node where there is none. A second one is refused before anything is
// built: of `[1], [2]` yaml-cpp makes documents without end. `start`: the place of the text.
Result<YAML::Node> parse(const std::string& text, const Place& start, bool has_lines,
                         const std::string& key) {
  const auto place_at = [&](const YAML::Mark& mark) {
    return has_lines && !mark.is_null() ? Place{start.source, mark.line + 1} : start;
  };
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Starts starts;
    while (starts.marks.size() < 2 && parser.HandleNextDocument(starts)) {
    }
    if (starts.marks.size() > 1) {
      return invalid_argument(format_error(place_at(starts.marks[1]), key, "more than one document",
                                           "text after the end of the first", "one document or value"));
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {  // yaml-cpp reports faults of the text by throwing
    return invalid_argument(
        format_error(place_at(error.mark), key, "YAML syntax error", error.msg, "well-formed YAML"));
  }
}

}  // namespace

Result<Value> read_document(std::string_view text, const std::string& source) {
  const Place start{source, 1};
  PACELINE_ASSIGN_OR_RETURN(const YAML::Node document, parse(std::string(text), start, true, ""));
  if (document.IsNull()) {
    return invalid_argument(format_error(start, "", "empty configuration", "nothing",
                                         "a YAML map with sections such as cluster and sync"));
  }
  Converter converter(source, true);
  if (!document.IsMap()) {
    return invalid_argument(format_error(converter.place_of(document, start), "", "wrong type",
                                         document.IsSequence() ? "a list" : "a scalar",
                                         "a YAML map with sections such as cluster and sync"));
  }
  Value root = converter.convert(document, start, "", 0);
  PACELINE_RETURN_IF_ERROR(converter.fault());
  return root;
}

Result<Value> read_argument(const std::string& text, const std::string& key) {
  const Place place{"command line", 0};
  PACELINE_ASSIGN_OR_RETURN(const YAML::Node document, parse(text, place, false, key));
  Converter converter("command line", false);
  Value value = converter.convert(document, place, key, 0);
  PACELINE_RETURN_IF_ERROR(converter.fault());
  return value;
}

}  // namespace paceline::config
