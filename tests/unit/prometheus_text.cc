#include "tests/unit/prometheus_text.h"

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

namespace paceline::testing {
namespace {

const std::regex kName("[a-zA-Z_:][a-zA-Z0-9_:]*");
const std::regex kHelp("# HELP (\\S+) (.+)");
const std::regex kType("# TYPE (\\S+) (counter|gauge|histogram|summary|untyped)");
const std::regex kSample(
    "([a-zA-Z_:][a-zA-Z0-9_:]*)"
    "(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\\\n]|\\\\[\\\\\"n])*\""
    "(?:,[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\\\n]|\\\\[\\\\\"n])*\")*\\})?"
    " (\\S+)");

bool is_number(const std::string& text, double& value) {
  if (text == "NaN" || text == "+Inf" || text == "-Inf") {
    value = std::strtod(text.c_str(), nullptr);
    return true;
  }
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && text.find_first_not_of("0123456789+-.e") == std::string::npos;
}

}  // namespace

PrometheusText read_prometheus(const std::string& text) {
  PrometheusText read;
  std::set<std::string> helped;
  std::string family;
  const auto fault = [&](const std::string& what, const std::string& line) {
    read.faults.push_back(what + ": " + line);
  };
  if (text.empty() || text.back() != '\n')
    fault("the last line has no end", text.substr(text.rfind('\n') + 1));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    double value = 0;
    if (std::regex_match(line, found, kHelp)) {
      family = found[1];
      if (!std::regex_match(family, kName)) fault("not a name", line);
      if (!helped.insert(family).second) fault("a second HELP", line);
    } else if (std::regex_match(line, found, kType)) {
      if (found[1] != family) fault("TYPE of another family than HELP", line);
      if (!read.types.emplace(found[1], found[2]).second) fault("a second TYPE", line);
      const bool total = family.ends_with("_total");
      if (total != (found[2] == "counter")) fault("counters, and nothing else, end in _total", line);
      for (const char* unit : {"_milliseconds", "_ms", "_percent", "_kilobytes", "_megabytes", "_minutes"}) {
        if (family.find(unit) != std::string::npos) fault("not a base unit", line);
      }
    } else if (std::regex_match(line, found, kSample) && is_number(found[3], value)) {
      const std::string name = found[1];
      if (name != family || !read.types.contains(name)) fault("a sample outside its family", line);
      if (!read.samples.emplace(name + found[2].str(), value).second) fault("a sample twice", line);
      if (read.types[name] == "counter" && !(value >= 0)) fault("a counter below 0", line);
    } else {
      fault("neither HELP, TYPE nor a sample", line);
    }
  }
  return read;
}

std::vector<std::string> fallen_counters(const PrometheusText& before, const PrometheusText& after) {
  std::vector<std::string> fallen;
  for (const auto& [sample, value] : before.samples) {
    const auto type = before.types.find(sample.substr(0, sample.find('{')));
    if (type == before.types.end() || type->second != "counter") continue;
    const auto now = after.samples.find(sample);
    if (now == after.samples.end() || now->second < value) fallen.push_back(sample);
  }
  return fallen;
}

}  // namespace paceline::testing
