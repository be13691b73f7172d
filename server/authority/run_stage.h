// How far a run is (authority.h says what each stage does).
#pragma once

namespace paceline::server {

enum class RunStage { kGathering, kTraining, kEnding, kClosing, kFiling, kOver };

}  // namespace paceline::server
