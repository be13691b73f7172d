// From a RunConfig back to text: the effective configuration, the commented reference, and the fingerprint.
// All three walk the schema, so none can forget a key.
#include <algorithm>

#include "common/config/load.h"
#include "common/config/schema.h"
#include "common/fnv1a.h"
#include "common/text/printable.h"

namespace paceline {
namespace {

using config::Key;
using config::schema;
using config::Scope;
using config::Section;

constexpr std::size_t kColumns = 110;

std::string parent_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}
std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }
std::string indent_of(const std::string& path) {
  return std::string(2 * static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')), ' ');
}

// `words` after "# ", broken at spaces so that no line is longer than kColumns; later lines stand two
// further in.
std::string comment(const std::string& indent, std::string_view words) {
  std::string text;
  std::string line = indent + "#";
  std::size_t start = 0;
  while (start < words.size()) {
    const std::size_t end = std::min(words.find(' ', start), words.size());
    if (line.size() + 1 + end - start > kColumns) {
      text += line + "\n";
      line = indent + "#  ";
    }
    line.append(" ").append(words.substr(start, end - start));
    start = end + 1;
  }
  return text + line + "\n";
}

// The value as YAML; null where the policy has no use for the key.
std::string text_of(const Key& key, const RunConfig& config) {
  return key.applies(config) ? key.write(config) : "null";
}

// The value as another process is told of it. A message cuts what is over 4,096 bytes (wire::kTextBytesMax), so a
// longer one goes by its beginning, its length and a hash, and equal values stay equal.
std::string message_text_of(const Key& key, const RunConfig& config) {
  constexpr std::size_t kWhole = 2000;
  constexpr std::size_t kBeginning = 1000;
  const std::string text = text_of(key, config);
  if (text.size() <= kWhole) return text;
  std::size_t cut = kBeginning;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not within a character
  return text.substr(0, cut) + "... (" + std::to_string(text.size()) + " bytes, hash " +
         std::to_string(fnv1a(text, kFnv1aBasis)) + ")";
}

// What is said in epochs is agreed on as what it comes to.
bool is_agreed(const Key& key, AgreedBy by) {
  if (counted_key(key.path) != key.path) return false;
  return key.scope == Scope::kWholeRun || (key.scope == Scope::kOneSession && by == AgreedBy::kSession);
}

// The same without quotes: a quoted text is one scalar, in which only '"' and '\\' are escaped.
std::string plain_text_of(const Key& key, const RunConfig& config) {
  const std::string text = text_of(key, config);
  if (!text.starts_with('"')) return text;
  std::string plain;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\') ++i;
    plain += text[i];
  }
  return plain;
}

}  // namespace

std::string to_yaml(const RunConfig& config) {
  std::string text;
  std::string last_section;
  for (const Key& key : schema().keys) {
    const std::string section = parent_of(key.path);
    // The keys of a section stand together, so a section is new exactly when nothing of it was written
    // before.
    if (section != last_section && !last_section.starts_with(section + ".")) {
      text += indent_of(section) + last_word(section) + ":\n";
    }
    last_section = section;
    text += indent_of(key.path) + last_word(key.path) + ": " + text_of(key, config) + "\n";
  }
  return text;
}

Result<std::string> value_of(const RunConfig& config, const std::string& path) {
  const Key* key = schema().find(path);
  if (key == nullptr) return invalid_argument(path + ": no such key (configs/reference.yaml lists them)");
  return plain_text_of(*key, config);
}

std::vector<std::pair<std::string, std::string>> effective_values(const RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Key& key : schema().keys) values.emplace_back(key.path, plain_text_of(key, config));
  return values;
}

std::uint64_t fingerprint(const RunConfig& config, AgreedBy by) {
  std::uint64_t hash = kFnv1aBasis;
  for (const Key& key : schema().keys) {
    if (is_agreed(key, by)) hash = fnv1a(key.path + "=" + text_of(key, config) + "\n", hash);
  }
  return hash;
}

std::vector<std::string> settings(const RunConfig& config) {
  const RunConfig defaults;
  std::vector<std::string> found;
  for (const Key& key : schema().keys) {
    const std::string text = message_text_of(key, config);
    const bool is_shown = text != message_text_of(key, defaults) || key.path == "run.seed";
    if (is_shown && is_agreed(key, AgreedBy::kSession)) {
      found.push_back(key.path + "=" + text);
    }
  }
  return found;
}

std::vector<std::string> resumable_settings(const RunConfig& config) {
  std::vector<std::string> found;
  for (const Key& key : schema().keys) {
    if (key.scope == Scope::kOneSession) found.push_back(key.path + "=" + text_of(key, config));
  }
  return found;
}

std::string differing_settings(std::span<const std::string> got, std::span<const std::string> expected,
                               AgreedBy by) {
  constexpr std::size_t kNamed = 8;
  const RunConfig defaults;
  const auto value_in = [&](std::span<const std::string> settings, const Key& key) {
    const std::string begin = key.path + "=";
    const auto found = std::find_if(settings.begin(), settings.end(),
                                    [&](const std::string& setting) { return setting.starts_with(begin); });
    return found == settings.end() ? message_text_of(key, defaults) : found->substr(begin.size());
  };
  std::string named;
  std::size_t count = 0;
  for (const Key& key : schema().keys) {
    if (!is_agreed(key, by)) continue;
    const std::string has = value_in(got, key);
    const std::string should = value_in(expected, key);
    if (has == should || ++count > kNamed) continue;
    named +=
        (named.empty() ? "" : "; ") + key.path + ": got " + quotable(has) + ", expected " + quotable(should);
  }
  return named + (count > kNamed ? "; and " + std::to_string(count - kNamed) + " more" : "");
}

std::string reference_yaml() {
  const RunConfig defaults;
  std::string text =
      comment("",
              "Every key of a Paceline configuration, at its default: the output of "
              "`paceline check-config --reference`, held to the code by a test. A configuration "
              "names only what differs. Here null stands where a default depends on the policy. "
              "docs/CONFIG.md says how files and arguments combine.");
  std::string last_section;
  for (const Key& key : schema().keys) {
    const std::string section = parent_of(key.path);
    const std::string indent = indent_of(key.path);
    if (section != last_section && !last_section.starts_with(section + ".")) {
      const auto about = std::find_if(schema().sections.begin(), schema().sections.end(),
                                      [&](const Section& s) { return s.path == section; });
      text += "\n" + comment(indent_of(section), section + ": " + std::string(about->about) + ".");
      text += indent_of(section) + last_word(section) + ":\n";
    } else {
      text += "\n";
    }
    last_section = section;
    text += comment(indent, key.words.effect);
    text +=
        comment(indent, "Accepts: " + key.expected +
                            (key.words.unit.empty() ? "" : ". Unit: " + std::string(key.words.unit)) + ".");
    if (key.by_policy) text += comment(indent, "Default: " + key.fallback + ".");
    text += comment(indent, "Trade-off: " + std::string(key.words.trade_off));
    text += indent + last_word(key.path) + ": " + (key.by_policy ? "null" : key.write(defaults)) + "\n";
  }
  return text;
}

}  // namespace paceline
