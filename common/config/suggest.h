// "Did you mean …?" for a misspelt or misplaced key. Internal to common/config.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paceline::config {

// The full path among `paths` that `unknown` most likely stands for, or "": the last words differ by at most
// a third of their letters (sync.treshold: sync.threshold), or are equal elsewhere (train.lr:
// train.optimizer.lr).
std::string suggest(std::string_view unknown, std::span<const std::string> paths);

}  // namespace paceline::config
