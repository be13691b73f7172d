#include "common/config/resume_keeps.h"

#include "common/config/document.h"
#include "common/config/load.h"
#include "common/config/schema.h"

namespace paceline {

Status check_resume_keeps(const std::string& recorded, std::span<const std::string> overrides) {
  const Result<RecordedConfig> run = load_recorded_config(recorded);
  if (!run.is_ok()) return Status::ok();
  std::string differ;
  for (const std::string& argument : overrides) {
    const std::size_t equals = argument.find('=');
    const config::Key* key = config::schema().find(argument.substr(0, equals));
    if (key == nullptr || key->scope != config::Scope::kWholeRun || equals == std::string::npos) continue;
    const Result<config::Value> value = config::read_argument(argument.substr(equals + 1), key->path);
    RunConfig changed = run->config;
    if (!value.is_ok() || key->read(*value, changed)) continue;
    const std::string got = key->write(changed);
    const std::string expected = key->write(run->config);
    if (got != expected)
      differ += (differ.empty() ? ": " : "; ") + key->path + ": got " + got + ", expected " + expected;
  }
  // What follows from an argument, as of other data.train_samples other versions do, where epochs are said.
  if (const auto changed = load_config(recorded, overrides, LoadFor::kReading);
      differ.empty() && changed.is_ok() &&
      fingerprint(*changed, AgreedBy::kRun) != fingerprint(run->config, AgreedBy::kRun)) {
    differ = ": " + differing_settings(settings(*changed), settings(run->config), AgreedBy::kRun);
  }
  if (differ.empty()) return Status::ok();
  return invalid_argument("command line: a resume keeps what the run began with" + differ);
}

}  // namespace paceline
