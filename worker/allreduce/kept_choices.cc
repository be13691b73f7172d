#include "worker/allreduce/kept_choices.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "common/assert.h"
#include "common/config/names.h"
#include "common/files/atomic_file.h"
#include "common/fnv1a.h"
#include "common/schedule/check.h"

namespace paceline {
namespace {

constexpr std::size_t kFileBytesMax = 64 * 1024;
// The first line. Another number where the same words would mean something else.
constexpr const char* kFormat = "paceline algorithms 3";
// Of a number of 64 bits: as many floats have them exactly.
constexpr std::size_t kParts = 4;
constexpr int kBitsOfPart = 16;

// "65536 ring 0.0021 direct 0.0014"; the seconds as they were, to the last bit.
std::string line_of(const MeasuredChoice& choice) {
  std::string line = std::to_string(choice.floats);
  for (const MeasuredChoice::Time& time : choice.times) {
    char text[64];
    std::snprintf(text, sizeof text, " %s %.17g", schedule::name_of(time.algorithm), time.seconds);
    line += text;
  }
  return line + "\n";
}

std::string text_of(const std::string& with, const std::vector<MeasuredChoice>& choices) {
  std::string text = std::string(kFormat) + "\n" + with + "\n";
  for (const MeasuredChoice& choice : choices) text += line_of(choice);
  return text;
}

std::optional<MeasuredChoice> choice_from(const std::string& line) {
  std::istringstream in(line);
  MeasuredChoice choice;
  if (!(in >> choice.floats)) return std::nullopt;
  std::string name;
  for (double seconds = 0.0; in >> name;) {
    const auto algorithm = named<schedule::Algorithm>(name);
    if (!algorithm || !(in >> seconds) || !(seconds >= 0.0)) return std::nullopt;
    choice.times.push_back({*algorithm, seconds});
  }
  if (choice.times.empty()) return std::nullopt;
  return choice;
}

// Alike on every rank, so nothing of what this one alone knows.
std::string measured_with(const MeasureRequest& request, const std::vector<std::string>& hosts) {
  std::string with = "all-reduce by";
  for (const schedule::Algorithm algorithm : candidates(request)) {
    with += std::string(" ") + schedule::name_of(algorithm);
  }
  with += std::string("; ") + name_of(request.encoding);
  with += "; at";
  for (const std::string& host : hosts) with += " " + host;
  return with;
}

std::optional<std::vector<MeasuredChoice>> read_choices(const std::filesystem::path& file,
                                                        const std::string& with,
                                                        std::span<const std::int64_t> floats) {
  const Result<std::string> text = read_file(file, kFileBytesMax);
  if (!text.is_ok()) return std::nullopt;
  std::istringstream in(*text);
  std::string line;
  if (!std::getline(in, line) || line != kFormat) return std::nullopt;
  if (!std::getline(in, line) || line != with) return std::nullopt;
  std::vector<MeasuredChoice> choices;
  while (std::getline(in, line)) {
    const auto choice = choice_from(line);
    if (!choice) return std::nullopt;
    choices.push_back(*choice);
  }
  const std::vector<std::int64_t> classes = classes_of(floats);
  const bool fits =
      std::equal(choices.begin(), choices.end(), classes.begin(), classes.end(),
                 [](const MeasuredChoice& choice, std::int64_t of) { return choice.floats == of; });
  return fits ? std::optional(std::move(choices)) : std::nullopt;
}

// Whether all ranks have the same, and have one: they tell each other a number of it.
Result<bool> all_have(const std::optional<std::vector<MeasuredChoice>>& choices, const std::string& with,
                      const MeasureRequest& request, mesh::Mesh& mesh, std::uint32_t& reductions) {
  const std::uint32_t ranks = request.place.ranks;
  // Not 0, which says that there is none.
  const std::uint64_t own = choices ? fnv1a(text_of(with, *choices)) | 1U : 0;
  std::vector<float> fingerprints(kParts * ranks);  // by rank: a sum of one and of zeros
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::uint64_t bits = own >> (part * kBitsOfPart) & ((1U << kBitsOfPart) - 1);
    fingerprints[request.place.rank * kParts + part] = static_cast<float>(bits);
  }
  const auto plan = schedule::make_plan({schedule::Algorithm::kTree, ranks, std::ssize(fingerprints), {}});
  const Status checked = plan.is_ok() ? schedule::check(*plan) : plan.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  const schedule::Program program(*plan, request.place.rank);
  PACELINE_RETURN_IF_ERROR(mesh.reduce(program, fingerprints, reductions++, request.silence));
  bool same = own != 0;
  for (std::size_t i = kParts; i < fingerprints.size(); ++i)
    same = same && fingerprints[i] == fingerprints[i - kParts];
  return same;
}

}  // namespace

std::filesystem::path choices_file(const RunConfig& config, NodeId node) {
  if (!config.exchange.measured.empty()) {
    // Nodes of one machine may be given the same file; those of each stage have measured something else.
    std::filesystem::path given = config.exchange.measured;
    if (config.pipeline.enabled()) given += ".stage" + std::to_string(node.value % config.pipeline.stages);
    return given;
  }
  return std::filesystem::path(config.run.out) / ("algorithms-node" + to_string(node) + ".txt");
}

std::vector<std::string> words_of(const KeptChoices& choices, schedule::Algorithm configured) {
  std::vector<std::string> lines;
  for (const MeasuredChoice& choice : choices.choices) {
    lines.push_back(choice.words() + (choices.were_kept ? ", as measured before" : ""));
  }
  if (lines.empty()) lines.push_back(std::string("all: ") + name_of(configured) + ", as configured");
  return lines;
}

Result<KeptChoices> choices_from(const std::filesystem::path& file, const std::vector<std::string>& hosts,
                                 const MeasureRequest& request, mesh::Mesh& mesh, std::uint32_t& reductions) {
  const std::string with = measured_with(request, hosts) + (mesh.has_keys() ? "; with keys" : "");
  auto kept = read_choices(file, with, request.floats);
  PACELINE_ASSIGN_OR_RETURN(const bool have, all_have(kept, with, request, mesh, reductions));
  if (have) return KeptChoices{*std::move(kept), true, Status::ok()};
  KeptChoices measured;
  PACELINE_ASSIGN_OR_RETURN(measured.choices, measure_choices(request, mesh, reductions));
  measured.written = write_file_atomically(file, text_of(with, measured.choices));
  return measured;
}

}  // namespace paceline
