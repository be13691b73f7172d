// Throws texts at the loader of configurations: whatever a file or an argument says, it is a configuration or
// refused in one line that says where, what it got and what it expected; and what was accepted is written as
// a text that means the same. With a sanitizer build this also shows that nothing is read or written out of
// bounds, yaml-cpp's part included.
//
// As a test: the files of configs/, mutated by a seeded generator, byte by byte and line by line; a failure
// prints the round, which reproduces it. With PACELINE_FUZZER (clang): the same property under libFuzzer.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/load.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/rounds.h"

namespace paceline {
namespace {

constexpr const char* kSource = "fuzz.yaml";

// Thrown, as an exception of the loader's would be: the test adds the round, under libFuzzer it ends the
// program.
[[noreturn]] void fail(const std::string& what, const std::string& detail) {
  throw std::runtime_error(what + ": " + detail);
}

void check_refusal(const Status& status) {
  const std::string& line = status.message();
  if (status.code() != StatusCode::kInvalidArgument) fail("wrong code", line);
  if (!line.starts_with(std::string(kSource) + ":") && !line.starts_with("command line: "))
    fail("no place", line);
  const std::size_t got = line.find(", got ");
  if (got == std::string::npos || line.find(", expected ", got) == std::string::npos) fail("no reason", line);
  if (line.find_first_of("\n\r") != std::string::npos) fail("more than one line", line);
}

// True when the text was accepted.
bool check(std::string_view text, std::span<const std::string> overrides) {
  const Result<RunConfig> config = parse_config(text, kSource, overrides);
  if (!config.is_ok()) {
    check_refusal(config.status());
    return false;
  }
  const std::string written = to_yaml(*config);
  const Result<RunConfig> back = parse_config(written, "written.yaml", {});
  if (!back.is_ok()) fail("accepted once, then refused", back.status().message());
  if (back.value() != config.value() || to_yaml(*back) != written) fail("changed on the way", written);
  return true;
}

#ifndef PACELINE_LIBFUZZER
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The files of configs/, without their comments.
std::vector<std::string> good_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(PACELINE_CONFIGS_DIR)) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::vector<std::string> lines = lines_of({std::istreambuf_iterator<char>(in), {}});
    std::erase_if(lines, [](const std::string& line) {
      const std::size_t first = line.find_first_not_of(' ');
      return first == std::string::npos || line[first] == '#';
    });
    texts.push_back(joined(lines));
  }
  std::sort(texts.begin(), texts.end());  // a folder's order is the machine's
  return texts;
}

// Values that are awkward somewhere.
std::string some_value(CounterRandom& random) {
  static const char* const kValues[] = {
      "-1",       "0",       "1",    "2",         "100",     "2147483648", "99999999999999999999",
      "1e308",    "1e-400",  ".nan", "-.inf",     "0x10",    "~",          "null",
      "yes",      "[]",      "{}",   "[1, 2, 3]", "[[1]]",   "{a: 1}",     "&a 3",
      "*a",       "'",       "\"",   "\"\"",      "bsp",     "asp",        "dtssp",
      "adam",     "auto",    "1ms",  "-1s",       "1h",      "!!int 3",    "|",
      ">",        "? x",     "- 1",  "%d%s%n",    "\"\\0\"", "\"a\\nb\"",  "{min: 1, max: 2}",
      "\xff\xfe", "\xc3\xa4"};
  return kValues[random.next_below(std::size(kValues))];
}

// A line is repeated, left out, moved, indented otherwise, or its value is another one.
void mutate_lines(std::string& text, CounterRandom& random) {
  std::vector<std::string> lines = lines_of(text);
  for (std::uint64_t changes = 1 + random.next_below(3); changes > 0 && !lines.empty(); --changes) {
    const std::size_t at = random.next_below(lines.size());
    const std::size_t other = random.next_below(lines.size());
    switch (random.next_below(8)) {
      case 0:
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(other), lines[at]);
        break;
      case 1:
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 2:
        std::swap(lines[at], lines[other]);
        break;
      case 3:
        lines[at].insert(0, random.next_below(5), ' ');
        break;
      default:
        if (const std::size_t colon = lines[at].find(": "); colon != std::string::npos)
          lines[at] = lines[at].substr(0, colon + 2) + some_value(random);
        break;
    }
  }
  text = joined(lines);
}

// One of the text's lines as an argument, e.g. `cluster.nodes=-1`: a key that there is, or nearly.
std::string some_override(const std::string& text, CounterRandom& random) {
  const std::vector<std::string> lines = lines_of(text);
  std::string section;
  std::string name = "run";
  for (std::size_t i = 0, stop = lines.empty() ? 0 : random.next_below(lines.size()) + 1; i < stop; ++i) {
    const std::size_t begin = std::min(lines[i].find_first_not_of(' '), lines[i].size());
    name = lines[i].substr(begin, lines[i].find(':') - begin);
    if (begin == 0) section = name;
  }
  std::string argument = section + "." + name + "=" + some_value(random);
  if (random.next_below(8) == 0) testing::mutate(argument, random);
  return argument;
}

// A mutated text, or a good one beside an argument: whether it was accepted.
bool check_mutated(std::string text, CounterRandom& random) {
  std::vector<std::string> overrides;
  switch (random.next_below(3)) {
    case 0:
      testing::mutate(text, random);
      break;
    case 1:
      mutate_lines(text, random);
      break;
    default:
      overrides.push_back(some_override(text, random));
      break;
  }
  return check(text, overrides);
}

int run(std::uint64_t rounds) {
  const std::vector<std::string> texts = good_texts();
  return testing::run_rounds("config", 6, rounds, {}, [&](CounterRandom& random, std::uint64_t round) {
    return check_mutated(texts[round % texts.size()], random);
  });
}
#endif

}  // namespace
}  // namespace paceline

#ifdef PACELINE_LIBFUZZER
// The first line is an argument if the text begins with '='.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  std::vector<std::string> overrides;
  if (text.starts_with('=') && end != std::string_view::npos) overrides.emplace_back(text.substr(1, end - 1));
  check(overrides.empty() ? text : text.substr(end + 1), overrides);
  return 0;
}
#else
int main(int argc, char** argv) {
  return paceline::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000);
}
#endif
